/* SPDX-License-Identifier: Apache-2.0 */
/* One record: what comes from outside is bounded and made UTF-8; the chain's fields are found. */
#include "base/strv.h"
#include "store/audit-record.h"

#include "tap.h"

#include <stdlib.h>

static struct err e;
static struct audit_actor actor = {.kind = "agent", .name = "a", .program = "/bin/sh"};

static size_t encoded_size(const json_t *j)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, 1 << 24);
	json_put_canonical(&b, j);
	return buf_failed(&b) ? 0 : b.len;
}

static void fits(const json_t *v, bool cut, const char *what)
{
	cleanup_json *copy = audit_bounded_copy(v);
	size_t size = encoded_size(copy);

	OK(copy && size > 0 && size <= AUDIT_JSON_MAX, what);
	OK(json_is_true(json_object_get(copy, "cut")) == cut, cut ? "it says so" : "uncut");
	if (cut)
		OK(size > AUDIT_JSON_MAX / 4, "a good part of it is kept");
	else
		OK(json_equal(copy, v), "it is the same");
}

/* k: n times v */
static json_t *list_of(const char *key, int n, json_t *v)
{
	json_t *a = json_array();

	for (int i = 0; i < n; i++)
		(void)json_array_append(a, v);
	json_decref(v);
	return json_pack("{s:o}", key, a);
}

static char *repeated(const char *s, size_t n)
{
	struct buf b;

	buf_init(&b, 1 << 24);
	for (size_t i = 0; i < n; i++)
		buf_put(&b, s, strlen(s));
	return buf_take_cstr(&b);
}

static void test_bounds(void)
{
	static const char *const pieces[] = {
		"x", "\"", "\x01", "\xc3\xa9", "\xf0\x9f\x98\x80", "\\"};
	cleanup_json *small = json_pack("{s:[s,i,b,n],s:{s:f}}", "argv", "x", 1, 1, "o", "f", 0.5);

	fits(small, false, "small values");
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		cleanup_str char *s = repeated(pieces[i], 100000);
		cleanup_json *big = json_pack("{s:s}", "text", s);
		fits(big, true, "a long string");
	}
	cleanup_json *args = list_of("argv", 20000, json_string("arg"));
	fits(args, true, "many strings");
	cleanup_json *empty = list_of("argv", 20000, json_string(""));
	fits(empty, true, "many empty strings");
	cleanup_json *arrays = list_of("argv", 20000, json_array());
	fits(arrays, true, "many empty arrays");
	cleanup_json *numbers = list_of("argv", 20000, json_integer(INT64_MIN));
	fits(numbers, true, "many numbers");
	cleanup_json *keys = json_object();
	for (int i = 0; i < 5000; i++) {
		char key[32];
		(void)snprintf(key, sizeof(key), "key-%d", i);
		(void)json_object_set_new(keys, key, json_object());
	}
	fits(keys, true, "many keys");
}

static void test_deep(void)
{
	json_t *deep = json_integer(1);

	for (int i = 0; i < 1000; i++)
		deep = i % 2 ? json_pack("{s:o}", "d", deep) : json_pack("[o]", deep);
	cleanup_json *copy = audit_bounded_copy(deep);
	OK(copy && encoded_size(copy) < 200 && json_is_true(json_object_get(copy, "cut")),
		"nested without end: cut");
	json_decref(deep);
}

static void test_utf8(void)
{
	cleanup_json *bad = json_object();
	cleanup_json *text = audit_text("a\xff\xc3\xa9\xc3", 100);

	EQ_STR(json_string_value(text), "a\\xff\xc3\xa9\\xc3", "bytes that are not UTF-8");
	(void)json_object_set_new_nocheck(bad, "k\xff", json_string_nocheck("v\xfe"));
	cleanup_json *copy = audit_bounded_copy(bad);
	EQ_STR(json_string_value(json_object_get(copy, "k\\xff")), "v\\xfe", "in keys and values");
	OK(encoded_size(bad) == 0 && encoded_size(copy) > 0, "so that it can be encoded");
	cleanup_json *zero = json_pack("{s:s#}", "z", "a\0b", 3);
	cleanup_json *same = audit_bounded_copy(zero);
	OK(json_equal(zero, same), "a NUL in a string is kept");
	cleanup_json *cut = audit_text("0123456789012345678901234567890123456789", 20);
	OK(strstr(json_string_value(cut), "...[cut]") && strlen(json_string_value(cut)) < 30,
		"a text is cut");
}

/* A record's line, without the newline. */
static char *line_of(const struct audit_event *ev, struct audit_fields *f, char hash[static 65])
{
	cleanup_buf struct buf b;

	buf_init(&b, AUDIT_LINE_MAX + 2);
	if (audit_record_put(&b, ev, f, hash, &e) < 0)
		return NULL;
	b.len--;
	return buf_take_cstr(&b);
}

#define PREV "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_scan(void)
{
	/* What looks like the fields of the chain, in places that others can write to. */
	const char *trap = ",\"prev\":\"" AUDIT_FIRST_PREV "\",\"seq\":9,\"time\":\"";
	cleanup_json *bound = json_pack("{s:s,s:i}", "prev", AUDIT_FIRST_PREV, "seq", 7);
	cleanup_json *detail = json_pack("{s:s,s:[s]}", "hash", PREV, "argv", trap);
	struct audit_event ev = {.action = trap,
		.sandbox = trap,
		.sandbox_id = trap,
		.actor = &actor,
		.bound = bound,
		.detail = detail};
	struct audit_fields f = {.wall_ns = 1,
		.seq = 12345,
		.phase = "end",
		.has_of = true,
		.of = 12344,
		.result = trap,
		.prev = PREV};
	struct audit_scan s;
	char hash[65];
	cleanup_str char *line = line_of(&ev, &f, hash);

	OK(line && audit_record_scan(line, strlen(line), &s), "scanned");
	EQ_INT(s.seq, 12345, "its number");
	EQ_STR(s.prev, PREV, "the hash of the one before");
	EQ_STR(s.hash, hash, "its own");
	OK(audit_record_holds(line, strlen(line), &s), "which holds");
	cleanup_json *o = NULL;
	OK(json_parse_object(line, strlen(line), "it", &o, &e) == 0, "the line is JSON");
	EQ_INT(json_integer_value(json_object_get(o, "seq")), 12345, "with the same number");
	EQ_STR(json_string_value(json_object_get(o, "hash")), hash, "and hash");
	line[strlen(line) / 2] ^= 1;
	OK(!audit_record_holds(line, strlen(line), &s), "a changed byte: it does not hold");
}

static void test_largest(void)
{
	cleanup_str char *s = repeated("\x01", 100000);
	cleanup_json *big = json_pack("{s:s}", "text", s);
	struct audit_actor odd = actor;
	struct audit_event ev = {.action = s,
		.sandbox = s,
		.sandbox_id = s,
		.actor = &odd,
		.bound = big,
		.detail = big};
	struct audit_fields f = {.seq = INT64_MAX, .phase = "end", .result = s, .prev = PREV};
	char hash[65];

	memset(odd.name, 1, sizeof(odd.name) - 1);
	memset(odd.program, 1, sizeof(odd.program) - 1);
	cleanup_str char *line = line_of(&ev, &f, hash);
	OK(line && strlen(line) < AUDIT_LINE_MAX,
		"the largest possible record is within the limit");
}

static void test_not_records(void)
{
	struct audit_event ev = {.action = "run", .actor = &actor};
	struct audit_fields f = {.seq = 1, .phase = "begin", .prev = PREV};
	struct audit_scan s;
	char hash[65];
	cleanup_str char *line = line_of(&ev, &f, hash);
	size_t len = strlen(line);
	int accepted = 0;

	OK(audit_record_scan(line, len, &s), "control: a record");
	for (size_t n = 0; n < len; n++)
		accepted += audit_record_scan(line, n, &s);
	EQ_INT(accepted, 0, "no part of one is");
	OK(!audit_record_scan(line + 1, len - 1, &s), "nor its end");
	OK(!audit_record_scan("", 0, &s), "nor nothing");
}

static int allocations_left;

static void *failing_malloc(size_t size)
{
	return allocations_left-- > 0 ? malloc(size) : NULL;
}

/* The n-th allocation fails, for every n: an error each time, and nothing half made. */
static void test_out_of_memory(void)
{
	cleanup_str char *s = repeated("x", 20000);
	cleanup_json *detail = json_pack("{s:[s,i,{s:s}],s:s}", "a", "b", 1, "c", "d", "e", s);
	struct audit_event ev = {.action = "run",
		.sandbox = "box",
		.sandbox_id = "id",
		.actor = &actor,
		.bound = detail,
		.detail = detail};
	int n = 0, wrong = 0;

	for (;; n++) {
		struct audit_fields f = {
			.seq = 1, .phase = "end", .has_of = true, .result = "ok", .prev = PREV};
		char hash[65];
		allocations_left = n;
		json_set_alloc_funcs(failing_malloc, free);
		char *line = line_of(&ev, &f, hash);
		json_set_alloc_funcs(malloc, free);
		bool whole = line && strstr(line, "\"cut\":true") && strstr(line, "\"sandbox_id\"");
		wrong += line && !whole;
		bool refused = !line && e.kind != ERR_NONE;
		free(line);
		if (whole)
			break;
		wrong += !refused;
		e = (struct err){0};
	}
	OK(n > 50, "allocations fail one by one");
	EQ_INT(wrong, 0, "each gives an error, or a whole record");
}

int main(void)
{
	test_bounds();
	test_deep();
	test_utf8();
	test_scan();
	test_largest();
	test_not_records();
	test_out_of_memory();
	return tap_done();
}
