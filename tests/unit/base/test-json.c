/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "base/strv.h"

#include "tap.h"

static struct err e;

static json_t *parse(const char *text)
{
	json_t *o = NULL;

	return json_parse_object(text, strlen(text), "the reply", &o, &e) == 0 ? o : NULL;
}

static void test_parse(void)
{
	static const char *const bad[] = {"", "{", "[]", "1", "{}x", "{} {}", "{\"a\":1,\"a\":2}",
		"{\"a\":\"\xff\"}", "{\"a\":\"\\u0000\"}", "{\"a\":NaN}", "nul"};
	cleanup_json *good = parse(" {\"a\": [1, {\"b\": null}]} \n");
	int accepted = 0;

	OK(good != NULL, "an object");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cleanup_json *o = parse(bad[i]);
		accepted += o != NULL || e.kind != ERR_PROTOCOL || !strstr(e.what, "the reply");
	}
	EQ_INT(accepted, 0, "all else is refused, naming the source");
	json_t *o = NULL;
	OK(json_parse_object("{}{", 2, "x", &o, &e) == 0, "only the given bytes are read");
	json_decref(o);
	OK(parse("{\"a\x1b[31m\": x}") == NULL && !strchr(e.what, '\x1b'),
		"the error has no control bytes");
}

static void test_deep(void)
{
	cleanup_buf struct buf b;
	json_t *o = NULL;

	buf_init(&b, 1 << 22);
	buf_put(&b, "{\"a\":", 5);
	for (int i = 0; i < 500000; i++)
		buf_put(&b, "[", 1);
	OK(json_parse_object(b.data, b.len, "x", &o, &e) < 0, "nested without end: refused");
}

static void test_strings(void)
{
	cleanup_json *o = parse("{\"s\":\"text\",\"n\":null,\"i\":1}");
	cleanup_json *nul = json_pack("{s:s#}", "s", "a\0b", 3);
	const char *s = "before";

	EQ_INT(json_get_str(o, "s", 4, &s, &e), 0, "a string at its maximum");
	EQ_STR(s, "text", "its value");
	OK(json_get_str(o, "s", 3, &s, &e) < 0 && e.kind == ERR_LIMIT, "too long");
	OK(json_get_str(o, "i", 9, &s, &e) < 0 && e.kind == ERR_PROTOCOL, "a number is none");
	OK(json_get_str(o, "x", 9, &s, &e) < 0 && strstr(e.what, "\"x\""),
		"a missing one is named");
	OK(json_get_str(o, "n", 9, &s, &e) < 0, "null is none");
	OK(json_get_str(nul, "s", 9, &s, &e) < 0, "nor is one with a NUL");
	EQ_STR(s, "text", "a failure writes nothing");
	EQ_INT(json_get_str_or(o, "x", 9, "default", &s, &e), 0, "missing: the default");
	EQ_STR(s, "default", "its value");
	EQ_INT(json_get_str_or(o, "n", 9, NULL, &s, &e), 0, "null too");
	OK(s == NULL, "which may be NULL");
	OK(json_get_str_or(o, "i", 9, "x", &s, &e) < 0, "a wrong type is no default");
	OK(json_get_str(NULL, "s", 9, &s, &e) < 0, "no object at all");
}

static void test_numbers(void)
{
	cleanup_json *o =
		parse("{\"n\":7,\"m\":-1,\"r\":1.5,\"s\":\"7\",\"big\":9223372036854775807,"
		      "\"t\":true}");
	uint64_t v = 3;
	bool b = false;

	OK(json_get_u64(o, "n", 7, &v, &e) == 0 && v == 7, "a number at its maximum");
	OK(json_get_u64(o, "n", 6, &v, &e) < 0 && e.kind == ERR_LIMIT, "over it");
	OK(json_get_u64(o, "m", 9, &v, &e) < 0 && json_get_u64(o, "r", 9, &v, &e) < 0 &&
			json_get_u64(o, "s", 9, &v, &e) < 0 && json_get_u64(o, "x", 9, &v, &e) < 0,
		"negative, real, string, missing");
	OK(v == 7, "a failure writes nothing");
	OK(json_get_u64(o, "big", UINT64_MAX, &v, &e) == 0 && v == INT64_MAX, "the largest");
	OK(json_get_u64_or(o, "x", 9, 5, &v, &e) == 0 && v == 5, "missing: the default");
	OK(json_get_bool_or(o, "t", false, &b, &e) == 0 && b, "true");
	OK(json_get_bool_or(o, "x", true, &b, &e) == 0 && b, "missing: the default");
	OK(json_get_bool_or(o, "n", true, &b, &e) < 0, "a number is no boolean");
}

static void test_lists(void)
{
	cleanup_json *o = parse("{\"a\":[\"x\",\"yz\"],\"m\":[1],\"o\":{},\"n\":null}");
	cleanup_strv char **v = NULL;
	json_t *item;

	OK(json_get_array(o, "a", 2, &item, &e) == 0 && json_array_size(item) == 2, "an array");
	OK(json_get_array(o, "a", 1, &item, &e) < 0 && e.kind == ERR_LIMIT, "too many");
	OK(json_get_array(o, "o", 9, &item, &e) < 0, "an object is none");
	OK(json_get_array_or_null(o, "a", 2, &item, &e) == 0 && json_array_size(item) == 2,
		"an array that may be missing");
	OK(json_get_array_or_null(o, "n", 2, &item, &e) == 0 && !item, "null");
	item = o;
	OK(json_get_array_or_null(o, "x", 2, &item, &e) == 0 && !item, "missing");
	OK(json_get_array_or_null(o, "a", 1, &item, &e) < 0 && e.kind == ERR_LIMIT, "too many");
	OK(json_get_array_or_null(o, "o", 9, &item, &e) < 0, "an object is neither");
	OK(json_get_object(o, "o", &item, &e) == 0 && json_is_object(item), "an object");
	OK(json_get_object(o, "a", &item, &e) < 0, "an array is none");
	OK(json_get_strv_or_empty(o, "a", 2, 5, &v, &e) == 0 && strv_len(v) == 2 &&
			strcmp(v[1], "yz") == 0,
		"strings");
	cleanup_json *back = json_from_strv(v);
	OK(json_equal(back, json_object_get(o, "a")), "and back");
	strv_freep(&v);
	OK(json_get_strv_or_empty(o, "a", 1, 99, &v, &e) < 0 && !v, "too many strings");
	OK(json_get_strv_or_empty(o, "a", 2, 4, &v, &e) < 0 && !v, "too long together");
	OK(json_get_strv_or_empty(o, "m", 2, 99, &v, &e) < 0 && !v, "not strings");
	OK(json_get_strv_or_empty(o, "n", 2, 99, &v, &e) == 0 && strv_len(v) == 0,
		"null is an empty list");
	char *const not_utf8[] = {(char *)"\xff", NULL};
	OK(json_from_strv(not_utf8) == NULL, "what is not UTF-8 is no JSON");
}

static void test_canonical(void)
{
	cleanup_json *a = parse("{\"b\": 1, \"a\": [true, \"\xc3\xa9\"]}");
	cleanup_buf struct buf b;

	buf_init(&b, 100);
	json_put_canonical(&b, a);
	EQ_STR(buf_cstr(&b), "{\"a\":[true,\"\xc3\xa9\"],\"b\":1}", "compact, keys sorted");
	json_put_canonical(&b, NULL);
	OK(buf_failed(&b), "nothing to append is a failure");
	buf_release(&b);
	buf_init(&b, 5);
	json_put_canonical(&b, a);
	OK(buf_failed(&b), "no room is one too");
}

int main(void)
{
	test_parse();
	test_deep();
	test_strings();
	test_numbers();
	test_lists();
	test_canonical();
	return tap_done();
}
