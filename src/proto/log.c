/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <errno.h>

static void put_le(unsigned char *at, uint64_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		at[i] = (unsigned char)(v >> (8 * i));
}

void log_header_encode(
	uint64_t wall_ns, enum log_which which, uint32_t len, unsigned char ret[LOG_HEADER_SIZE])
{
	put_le(ret, wall_ns, 8);
	put_le(ret + 8, len, 4);
	ret[12] = (unsigned char)which;
	ret[13] = LOG_MAGIC;
	put_le(ret + 14, 0, 2);
}

int log_record_parse(const unsigned char *data, size_t len, struct log_record *ret)
{
	struct cursor c;

	if (len < LOG_HEADER_SIZE)
		return 0;
	cursor_init(&c, data, len);
	uint64_t wall_ns = cursor_u64(&c);
	uint32_t size = cursor_u32(&c);
	uint8_t which = cursor_u8(&c), magic = cursor_u8(&c);
	uint16_t zero = cursor_u16(&c);

	if (magic != LOG_MAGIC || zero != 0 || size > LOG_DATA_MAX || which < LOG_STDOUT ||
		which >= LOG_WHICH_END || (which >= LOG_LOST && size > 0))
		return -EPROTO;
	const unsigned char *bytes = cursor_bytes(&c, size);
	if (!bytes)
		return 0;
	*ret = (struct log_record){
		.wall_ns = wall_ns, .which = (enum log_which)which, .len = size, .data = bytes};
	return LOG_HEADER_SIZE + (int)size;
}
