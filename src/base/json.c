/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#include "strv.h"
#include "text.h"

#include <string.h>

int json_parse_object(const void *data, size_t len, const char *what, json_t **ret, struct err *e)
{
	json_error_t je;

	if (len == 0)
		return err_set(e, ERR_PROTOCOL, 0, "%s is empty: not valid JSON", what);
	json_t *j = json_loadb(data, len, JSON_REJECT_DUPLICATES, &je);

	if (!j) {
		/* The text quotes the source, control bytes and all. */
		char safe[128];
		text_escape(je.text, safe, sizeof(safe));
		return err_set(e, ERR_PROTOCOL, 0, "%s is not valid JSON (line %d: %s)", what,
			je.line, safe);
	}
	if (!json_is_object(j)) {
		json_decref(j);
		return err_set(e, ERR_PROTOCOL, 0, "%s is not a JSON object", what);
	}
	*ret = j;
	return 0;
}

static int wrong(struct err *e, const char *key, const char *expected)
{
	return err_set(e, ERR_PROTOCOL, 0, "\"%s\" must be %s", key, expected);
}

static bool has_nul(const json_t *v)
{
	return memchr(json_string_value(v), '\0', json_string_length(v)) != NULL;
}

static const json_t *present(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_null(v) ? NULL : v;
}

int json_get_str(const json_t *o, const char *key, size_t max, const char **ret, struct err *e)
{
	const json_t *v = present(o, key);

	if (!json_is_string(v) || has_nul(v))
		return wrong(e, key, "a string");
	if (json_string_length(v) > max)
		return err_set(e, ERR_LIMIT, 0, "\"%s\" is longer than %zu bytes", key, max);
	*ret = json_string_value(v);
	return 0;
}

int json_get_str_or(const json_t *o, const char *key, size_t max, const char *fallback,
	const char **ret, struct err *e)
{
	if (!present(o, key)) {
		*ret = fallback;
		return 0;
	}
	return json_get_str(o, key, max, ret, e);
}

int json_get_u64(const json_t *o, const char *key, uint64_t max, uint64_t *ret, struct err *e)
{
	const json_t *v = present(o, key);

	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return wrong(e, key, "a number that is not negative");
	if ((uint64_t)json_integer_value(v) > max)
		return err_set(
			e, ERR_LIMIT, 0, "\"%s\" is over %llu", key, (unsigned long long)max);
	*ret = (uint64_t)json_integer_value(v);
	return 0;
}

int json_get_u64_or(const json_t *o, const char *key, uint64_t max, uint64_t fallback,
	uint64_t *ret, struct err *e)
{
	if (!present(o, key)) {
		*ret = fallback;
		return 0;
	}
	return json_get_u64(o, key, max, ret, e);
}

int json_get_bool_or(const json_t *o, const char *key, bool fallback, bool *ret, struct err *e)
{
	const json_t *v = present(o, key);

	if (v && !json_is_boolean(v))
		return wrong(e, key, "true or false");
	*ret = v ? json_is_true(v) : fallback;
	return 0;
}

int json_get_array(const json_t *o, const char *key, size_t max, json_t **ret, struct err *e)
{
	json_t *v = json_object_get(o, key);

	if (!json_is_array(v))
		return wrong(e, key, "an array");
	if (json_array_size(v) > max)
		return err_set(e, ERR_LIMIT, 0, "\"%s\" has more than %zu elements", key, max);
	*ret = v;
	return 0;
}

int json_get_array_or_null(
	const json_t *o, const char *key, size_t max, json_t **ret, struct err *e)
{
	json_t *v = json_object_get(o, key);

	if (v && !json_is_null(v))
		return json_get_array(o, key, max, ret, e);
	*ret = NULL;
	return 0;
}

int json_get_object(const json_t *o, const char *key, json_t **ret, struct err *e)
{
	json_t *v = json_object_get(o, key);

	if (!json_is_object(v))
		return wrong(e, key, "an object");
	*ret = v;
	return 0;
}

int json_get_strv_or_empty(const json_t *o, const char *key, size_t max_items, size_t max_bytes,
	char ***ret, struct err *e)
{
	cleanup_strv char **v = strv_new();
	json_t *array = NULL, *item;
	size_t i, total = 0;

	if (!v)
		return err_set(e, ERR_IO, 12, "out of memory");
	if (present(o, key)) {
		int r = json_get_array(o, key, max_items, &array, e);
		if (r < 0)
			return r;
	}
	json_array_foreach (array, i, item) {
		if (!json_is_string(item) || has_nul(item))
			return wrong(e, key, "an array of strings");
		total += json_string_length(item) + 1;
		if (total > max_bytes)
			return err_set(
				e, ERR_LIMIT, 0, "\"%s\" is longer than %zu bytes", key, max_bytes);
		if (strv_add(&v, json_string_value(item)) < 0)
			return err_set(e, ERR_IO, 12, "out of memory");
	}
	*ret = strv_take(&v);
	return 0;
}

json_t *json_from_strv(char *const *v)
{
	json_t *a = json_array();

	for (; a && v && *v; v++)
		if (json_array_append_new(a, json_string(*v)) < 0) {
			json_decref(a);
			return NULL;
		}
	return a;
}

static int append(const char *data, size_t len, void *ctx)
{
	struct buf *b = ctx;

	buf_put(b, data, len);
	return buf_failed(b) ? -1 : 0;
}

void json_put_canonical(struct buf *b, const json_t *j)
{
	if (!j || json_dump_callback(
			  j, append, b, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY) < 0)
		b->failed = true;
}
