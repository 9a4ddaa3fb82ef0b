/* SPDX-License-Identifier: Apache-2.0 */
#include "frame.h"

#include "cursor.h"

#include <errno.h>

static void put_le(unsigned char *at, uint32_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		at[i] = (unsigned char)(v >> (8 * i));
}

void frame_header(unsigned char ret[static FRAME_HEADER_SIZE], uint16_t type, uint32_t stream,
	uint32_t epoch, size_t len)
{
	put_le(ret, (uint32_t)len, 4);
	put_le(ret + 4, type, 2);
	put_le(ret + 6, FRAME_MAGIC, 2);
	put_le(ret + 8, stream, 4);
	put_le(ret + 12, epoch, 4);
}

void frame_put(struct buf *b, uint16_t type, uint32_t stream, uint32_t epoch, const void *payload,
	size_t len)
{
	if (len > FRAME_PAYLOAD_MAX || b->max - b->len < FRAME_HEADER_SIZE + len) {
		b->failed = true;
		return;
	}
	unsigned char *header = buf_extend(b, FRAME_HEADER_SIZE);
	if (header)
		frame_header(header, type, stream, epoch, len);
	buf_put(b, payload, len);
}

int frame_parse(const unsigned char *data, size_t len, struct frame *ret)
{
	struct cursor c;

	if (len < FRAME_HEADER_SIZE)
		return 0;
	cursor_init(&c, data, len);
	uint32_t size = cursor_u32(&c);
	uint16_t type = cursor_u16(&c);
	uint16_t magic = cursor_u16(&c);
	uint32_t stream = cursor_u32(&c);
	uint32_t epoch = cursor_u32(&c);
	if (magic != FRAME_MAGIC || size > FRAME_PAYLOAD_MAX)
		return -EPROTO;
	const unsigned char *payload = cursor_bytes(&c, size);
	if (!payload)
		return 0;
	*ret = (struct frame){
		.type = type, .stream = stream, .epoch = epoch, .payload = payload, .len = size};
	return (int)(FRAME_HEADER_SIZE + size);
}
