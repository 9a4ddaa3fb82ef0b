/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing byte buffer with a hard maximum and sticky failure: after one failed append (out of
 * memory or over the maximum) all further appends do nothing, and one check of buf_failed() at the
 * end tells. Integers are little-endian. One owner; buf_release() accepts any state.
 */
#ifndef KOSA8_BASE_BUF_H
#define KOSA8_BASE_BUF_H

#include "err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	unsigned char *data; /* NULL while nothing was appended */
	size_t len;
	size_t cap;
	size_t max; /* len never exceeds it */
	bool failed;
};

void buf_init(struct buf *b, size_t max_bytes);
void buf_release(struct buf *b);
/* Forgets the content and the failure; keeps the allocation. */
void buf_reset(struct buf *b);
static inline bool buf_failed(const struct buf *b)
{
	return b->failed;
}

void buf_put(struct buf *b, const void *data, size_t len);
void buf_put_u8(struct buf *b, uint8_t v);
void buf_put_u16(struct buf *b, uint16_t v);
void buf_put_u32(struct buf *b, uint32_t v);
void buf_put_u64(struct buf *b, uint64_t v);
/* u32 length, then the bytes: the form in which proto/ sends strings. */
void buf_put_str(struct buf *b, const char *s);
void buf_putf(struct buf *b, const char *fmt, ...) format_printf(2, 3);
/* Appends len uninitialised bytes and returns them, or NULL. */
void *buf_extend(struct buf *b, size_t len);
/* Drops the first n bytes (n <= len). */
void buf_consume(struct buf *b, size_t n);
/* The content as a string: NUL-terminated, NUL not counted in len. NULL when failed. Owned by b. */
const char *buf_cstr(struct buf *b);
/* Hands the content over as a malloc'ed string; b is empty afterwards. NULL when failed. */
char *buf_take_cstr(struct buf *b);

#define cleanup_buf __attribute__((cleanup(buf_release)))

#endif
