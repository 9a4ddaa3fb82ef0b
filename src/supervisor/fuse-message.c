/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse-message.h"

#include "../base/cursor.h"
#include "../proto/fs.h"

#include <assert.h>
#include <errno.h>
#include <linux/fuse.h>
#include <string.h>

/* Headers and arguments beside the data of a WRITE or READ. */
#define EXTRA_MAX 4096

static_assert(sizeof(struct fuse_out_header) == FUSE_ERROR_SIZE, "an answer without a body");

int fuse_request_parse(const void *data, size_t len, uint64_t *ret_unique, bool *ret_answered)
{
	struct fuse_in_header h;

	if (len < sizeof(h) || len > FS_DATA_MAX + EXTRA_MAX)
		return -EPROTO;
	memcpy(&h, data, sizeof(h));
	bool answered = h.opcode != FUSE_FORGET && h.opcode != FUSE_BATCH_FORGET &&
			h.opcode != FUSE_INTERRUPT;
	if (h.len != len || (answered && h.unique == 0))
		return -EPROTO;
	*ret_unique = h.unique;
	*ret_answered = answered;
	return 0;
}

int fuse_reply_parse(const void *data, size_t len, uint64_t *ret_unique)
{
	struct fuse_out_header h;

	if (len < sizeof(h) || len > FS_DATA_MAX + EXTRA_MAX)
		return -EPROTO;
	memcpy(&h, data, sizeof(h));
	if (h.len != len)
		return -EPROTO;
	*ret_unique = h.unique;
	return 0;
}

int fuse_slot_reply_parse(const void *data, size_t len, uint64_t *ret_unique, size_t *ret_data_len)
{
	struct fuse_out_header h;

	if (len != sizeof(h))
		return -EPROTO;
	memcpy(&h, data, sizeof(h));
	if (h.len < sizeof(h) || h.len - sizeof(h) > FS_SLOT_SIZE || h.unique == 0)
		return -EPROTO;
	*ret_unique = h.unique;
	*ret_data_len = h.len - sizeof(h);
	return 0;
}

int fuse_slot_request_parse(const void *data, size_t len, uint32_t *ret_slot)
{
	struct cursor c;

	cursor_init(&c, data, len);
	if (len < sizeof(uint32_t))
		return -EPROTO;
	(void)cursor_bytes(&c, len - sizeof(uint32_t));
	uint32_t slot = cursor_u32(&c);
	if (!cursor_done(&c) || slot >= FS_SLOTS)
		return -EPROTO;
	*ret_slot = slot;
	return 0;
}

void fuse_error_encode(uint64_t unique, int errnum, unsigned char ret[static FUSE_ERROR_SIZE])
{
	struct fuse_out_header h = {.len = sizeof(h), .error = -errnum, .unique = unique};

	memcpy(ret, &h, sizeof(h));
}
