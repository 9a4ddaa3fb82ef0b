/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of records, as the command line gets it from a guest. */
#include "proto/log.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char header[LOG_HEADER_SIZE];
	struct log_record r;
	int n;

	for (size_t at = 0; (n = log_record_parse(data + at, size - at, &r)) > 0; at += (size_t)n) {
		assert((size_t)n == LOG_HEADER_SIZE + r.len && (size_t)n <= size - at);
		log_header_encode(r.wall_ns, r.which, r.len, header);
		assert(memcmp(header, data + at, sizeof(header)) == 0);
		assert(r.data == data + at + LOG_HEADER_SIZE);
	}
	return 0;
}
