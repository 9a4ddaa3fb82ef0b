/* SPDX-License-Identifier: Apache-2.0 */
/* Entries one after another, their content skipped; what is taken must encode to the same bytes. */
#include "proto/tree.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct tree_entry entry;
	cleanup_buf struct buf b = {0};
	int n;

	buf_init(&b, TREE_HEADER_MAX + 4);
	while ((n = tree_entry_parse(data, size, &entry)) > 0) {
		assert((size_t)n <= size && tree_path_is_safe(entry.path));
		buf_reset(&b);
		tree_entry_encode(&b, &entry);
		assert(!buf_failed(&b) && b.len == (size_t)n && memcmp(b.data, data, b.len) == 0);
		data += n;
		size -= (size_t)n;
		if (entry.type == TREE_END || entry.size > size)
			break;
		data += entry.size;
		size -= entry.size;
	}
	assert(n >= 0 || n == -EPROTO);
	return 0;
}
