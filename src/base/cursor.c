/* SPDX-License-Identifier: Apache-2.0 */
#include "cursor.h"

#include <stdlib.h>
#include <string.h>

void cursor_init(struct cursor *c, const void *data, size_t len)
{
	*c = (struct cursor){.at = data, .left = len};
}

const unsigned char *cursor_bytes(struct cursor *c, size_t len)
{
	if (c->failed || len > c->left) {
		c->failed = true;
		return NULL;
	}
	const unsigned char *at = c->at;
	c->at += len;
	c->left -= len;
	return at;
}

static uint64_t get_le(struct cursor *c, unsigned bytes)
{
	const unsigned char *p = cursor_bytes(c, bytes);
	uint64_t v = 0;

	if (!p)
		return 0;
	for (unsigned i = 0; i < bytes; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

uint8_t cursor_u8(struct cursor *c)
{
	return (uint8_t)get_le(c, 1);
}

uint16_t cursor_u16(struct cursor *c)
{
	return (uint16_t)get_le(c, 2);
}

uint32_t cursor_u32(struct cursor *c)
{
	return (uint32_t)get_le(c, 4);
}

uint64_t cursor_u64(struct cursor *c)
{
	return get_le(c, 8);
}

char *cursor_strdup(struct cursor *c, size_t max)
{
	uint32_t len = cursor_u32(c);

	if (len > max) {
		c->failed = true;
		return NULL;
	}
	const unsigned char *p = cursor_bytes(c, len);
	if (!p)
		return NULL;
	char *s = memchr(p, '\0', len) ? NULL : malloc((size_t)len + 1);
	if (!s) {
		c->failed = true;
		return NULL;
	}
	memcpy(s, p, len);
	s[len] = '\0';
	return s;
}

bool cursor_done(const struct cursor *c)
{
	return !c->failed && c->left == 0;
}
