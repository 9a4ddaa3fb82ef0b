/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one reader for bytes that come from outside: guest, client, file. Every get checks the bytes
 * that are left; after one short read the cursor has failed for good, yields zeros and empty
 * strings, and cursor_done() says false. Integers are little-endian. Nothing is copied: results
 * point into the source.
 */
#ifndef KOSA8_BASE_CURSOR_H
#define KOSA8_BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cursor {
	const unsigned char *at;
	size_t left;
	bool failed;
};

void cursor_init(struct cursor *c, const void *data, size_t len);
uint8_t cursor_u8(struct cursor *c);
uint16_t cursor_u16(struct cursor *c);
uint32_t cursor_u32(struct cursor *c);
uint64_t cursor_u64(struct cursor *c);
/* The next len bytes, or NULL. */
const unsigned char *cursor_bytes(struct cursor *c, size_t len);
/* A buf_put_str() string of at most max bytes, copied with a NUL into a malloc'ed string that the
 * caller frees; a NUL byte inside fails the cursor. NULL on failure. */
char *cursor_strdup(struct cursor *c, size_t max);
/* True when nothing failed and nothing is left. */
bool cursor_done(const struct cursor *c);

#endif
