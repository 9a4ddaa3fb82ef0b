/* SPDX-License-Identifier: Apache-2.0 */
#include "base/frame.h"

#include <assert.h>
#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame f;
	int n;

	while ((n = frame_parse(data, size, &f)) > 0) {
		assert((size_t)n <= size && f.len == (size_t)n - FRAME_HEADER_SIZE);
		data += n;
		size -= (size_t)n;
	}
	assert(n == 0 || n == -EPROTO);
	return 0;
}
