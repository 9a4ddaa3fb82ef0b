/* SPDX-License-Identifier: Apache-2.0 */
#include "buf.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *b, size_t max_bytes)
{
	*b = (struct buf){.max = max_bytes};
}

void buf_release(struct buf *b)
{
	free(b->data);
	*b = (struct buf){.max = b->max};
}

void buf_reset(struct buf *b)
{
	b->len = 0;
	b->failed = false;
}

void *buf_extend(struct buf *b, size_t len)
{
	/* The spare byte below must not overflow, whatever the maximum. */
	if (b->failed || len > b->max - b->len || len >= SIZE_MAX - b->len) {
		b->failed = true;
		return NULL;
	}
	/* One byte more than asked: room for buf_cstr()'s NUL. */
	if (b->len + len + 1 > b->cap) {
		size_t cap = b->cap ? b->cap : 64;

		while (cap < b->len + len + 1)
			cap = cap > SIZE_MAX / 2 ? b->len + len + 1 : cap * 2;
		unsigned char *data = realloc(b->data, cap);
		if (!data) {
			b->failed = true;
			return NULL;
		}
		b->data = data;
		b->cap = cap;
	}
	void *at = b->data + b->len;
	b->len += len;
	return at;
}

void buf_put(struct buf *b, const void *data, size_t len)
{
	void *at = buf_extend(b, len);

	if (at && len)
		memcpy(at, data, len);
}

static void put_le(struct buf *b, uint64_t v, unsigned bytes)
{
	unsigned char raw[8];

	for (unsigned i = 0; i < bytes; i++)
		raw[i] = (unsigned char)(v >> (8 * i));
	buf_put(b, raw, bytes);
}

void buf_put_u8(struct buf *b, uint8_t v)
{
	put_le(b, v, 1);
}

void buf_put_u16(struct buf *b, uint16_t v)
{
	put_le(b, v, 2);
}

void buf_put_u32(struct buf *b, uint32_t v)
{
	put_le(b, v, 4);
}

void buf_put_u64(struct buf *b, uint64_t v)
{
	put_le(b, v, 8);
}

void buf_put_str(struct buf *b, const char *s)
{
	size_t len = strlen(s);

	if (len > UINT32_MAX) {
		b->failed = true;
		return;
	}
	buf_put_u32(b, (uint32_t)len);
	buf_put(b, s, len);
}

void buf_putf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0) {
		b->failed = true;
		return;
	}
	/* buf_extend() keeps one spare byte for the NUL that vsnprintf writes. */
	char *at = buf_extend(b, (size_t)n);
	if (!at)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(at, (size_t)n + 1, fmt, ap);
	va_end(ap);
}

void buf_consume(struct buf *b, size_t n)
{
	assert(n <= b->len);
	if (n == 0)
		return;
	memmove(b->data, b->data + n, b->len - n);
	b->len -= n;
}

const char *buf_cstr(struct buf *b)
{
	if (b->failed)
		return NULL;
	if (!buf_extend(b, 0))
		return NULL;
	b->data[b->len] = '\0';
	return (const char *)b->data;
}

char *buf_take_cstr(struct buf *b)
{
	if (!buf_cstr(b))
		return NULL;
	char *s = (char *)b->data;
	*b = (struct buf){.max = b->max};
	return s;
}
