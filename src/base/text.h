/* SPDX-License-Identifier: Apache-2.0 */
/* Short text: numbers, durations, escaping, the names of sandboxes, near misses. */
#ifndef KOSA8_BASE_TEXT_H
#define KOSA8_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A decimal number in [min, max] and nothing else. 0 or -EINVAL/-ERANGE. */
int text_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret);
/* Docker's durations: 10 or 10s, 1m30s, 250ms, 2h; at most 365 days, more than zero. */
int text_parse_duration_ms(const char *s, uint64_t *ret_ms);
/* For people: printable UTF-8 as it is; as \xNN control characters, those that change the order or
 * the line of what follows, and bytes that are not UTF-8. Escaping twice changes nothing; cuts at
 * size, between characters and not inside what is escaped already. */
void text_escape(const char *s, char *ret, size_t size);
/* [a-z0-9][a-z0-9_.-]{0,62}, and none of the reserved ls, rm, diff. */
bool text_is_sandbox_name(const char *s);
/* 1 to 128 bytes of UTF-8 without control characters. */
bool text_is_label(const char *s);
bool text_is_utf8(const char *s, size_t len);
void text_hex(const void *data, size_t len, char *ret); /* ret: 2 * len + 1 bytes */
/* 2 * len hex digits at s (more text may follow) into ret; false when they are not. */
bool text_unhex(const char *s, unsigned char *ret, size_t len);
bool text_starts_with(const char *s, const char *prefix);
/* Optimal string alignment distance, cut off at limit + 1: for "did you mean". */
unsigned text_distance(const char *a, const char *b, unsigned limit);
/* A size for people: "512 B", "3.4 MB" (powers of 1000). */
#define TEXT_SIZE_MAX 24
void text_size(uint64_t bytes, char ret[static TEXT_SIZE_MAX]);

#endif
