/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of FUSE messages: from the guest, and from the server of a mount. */
#include "supervisor/fuse-message.h"

#include "proto/fs.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char error[FUSE_ERROR_SIZE];
	uint64_t unique = 0, back = 1;
	bool answered = false;

	if (fuse_reply_parse(data, size, &unique) == 0)
		assert(size >= FUSE_ERROR_SIZE);
	uint32_t slot = UINT32_MAX;
	size_t data_len = SIZE_MAX;
	if (fuse_slot_request_parse(data, size, &slot) == 0)
		assert(size >= sizeof(slot) && slot < FS_SLOTS);
	if (fuse_slot_reply_parse(data, size, &unique, &data_len) == 0)
		assert(size == FUSE_ERROR_SIZE && unique != 0 && data_len <= FS_SLOT_SIZE);
	if (fuse_request_parse(data, size, &unique, &answered) < 0)
		return 0;
	assert(size >= 40 && (!answered || unique != 0));
	fuse_error_encode(unique, 5, error);
	assert(fuse_reply_parse(error, sizeof(error), &back) == 0 && back == unique);
	return 0;
}
