/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jansson, wrapped: bounded parsing and typed getters for objects that came from outside. Getters
 * return 0 or a negative errno with *e naming the key; they never write ret on failure. Results
 * that point into the object live as long as it does.
 */
#ifndef KOSA8_BASE_JSON_H
#define KOSA8_BASE_JSON_H

#include "buf.h"
#include "err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define cleanup_json json_auto_t /* cleanup_json *j = NULL: dropped at the end of the scope */

/* One object, nothing after it, no duplicate keys. what names the source in the error. */
int json_parse_object(
	const void *data, size_t len, const char *what, json_t **ret, struct err *e) must_check;
/* A required string of at most max bytes without NUL. */
int json_get_str(
	const json_t *o, const char *key, size_t max, const char **ret, struct err *e) must_check;
/* The same, *ret = fallback when the key is missing or null. */
int json_get_str_or(const json_t *o, const char *key, size_t max, const char *fallback,
	const char **ret, struct err *e) must_check;
int json_get_u64(
	const json_t *o, const char *key, uint64_t max, uint64_t *ret, struct err *e) must_check;
int json_get_u64_or(const json_t *o, const char *key, uint64_t max, uint64_t fallback,
	uint64_t *ret, struct err *e) must_check;
int json_get_bool_or(
	const json_t *o, const char *key, bool fallback, bool *ret, struct err *e) must_check;
/* A required array of at most max elements / object; borrowed. */
int json_get_array(
	const json_t *o, const char *key, size_t max, json_t **ret, struct err *e) must_check;
/* The same; missing or null: *ret is NULL, which jansson takes as an empty one. */
int json_get_array_or_null(
	const json_t *o, const char *key, size_t max, json_t **ret, struct err *e) must_check;
int json_get_object(const json_t *o, const char *key, json_t **ret, struct err *e) must_check;
/* An array of strings as a NULL-terminated malloc'ed vector (free with strv_free of base/strv.h);
 * a missing or null key gives an empty vector. */
int json_get_strv_or_empty(const json_t *o, const char *key, size_t max_items, size_t max_bytes,
	char ***ret, struct err *e) must_check;
json_t *json_from_strv(char *const *v);
/* Appends the compact form with sorted keys: the canonical form for hashing. */
void json_put_canonical(struct buf *b, const json_t *j);

#endif
