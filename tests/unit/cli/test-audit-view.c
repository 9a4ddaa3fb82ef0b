/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/audit-view.h"

#include "tap.h"

#include <stdlib.h>

static ssize_t add(struct audit_view *v, const char *json)
{
	cleanup_json *record = json_loads(json, 0, NULL);

	return audit_view_add(v, record);
}

#define BEGIN(seq, box, pid)                                                                    \
	"{\"seq\":" seq ",\"phase\":\"begin\",\"time\":\"2026-01-31T12:00:00.000Z\","           \
	"\"action\":\"run\",\"sandbox\":\"" box "\",\"actor\":{\"kind\":\"agent\",\"pid\":" pid \
	",\"name\":\"crew\",\"program\":\"/usr/bin/python3\"},"                                 \
	"\"detail\":{\"argv\":[\"sh\",\"-c\",\"x\"]}}"
#define END(seq, of, result)                                          \
	"{\"seq\":" seq ",\"phase\":\"end\",\"of\":" of               \
	",\"time\":\"2026-01-31T12:00:01.000Z\",\"result\":\"" result \
	"\",\"detail\":{\"code\":3}}"

static void test_join(void)
{
	cleanup_audit_view struct audit_view v = {0};
	char cells[AUDIT_CELLS][AUDIT_CELL_SIZE];

	EQ_INT(add(&v, BEGIN("1", "a", "999999999")), -1, "a begin completes nothing");
	EQ_INT(add(&v, BEGIN("2", "b", "999999999")), -1, "another");
	EQ_INT(add(&v, END("3", "1", "ok")), 0, "an end completes its begin");
	EQ_INT(add(&v, END("4", "77", "ok")), -1, "an end of nothing");
	EQ_INT(v.last_seq, 4, "the last record seen");
	audit_entry_cells(&v.entries[0], cells);
	EQ_STR(cells[0], "1", "seq");
	EQ_STR(cells[1], "2026-01-31 12:00:00", "time");
	EQ_STR(cells[2], "agent crew (python3)", "actor");
	EQ_STR(cells[3], "run", "action");
	EQ_STR(cells[5], "ok", "result");
	EQ_STR(cells[6], "code=3 argv=sh -c x", "detail of begin and end");
	(void)json_object_set_new(json_object_get(v.entries[0].begin, "detail"), "argv",
		json_pack("[s, {s:s}, {s:s}]", "echo", "hex", "61ff1b", "hex", "f"));
	audit_entry_cells(&v.entries[0], cells);
	EQ_STR(cells[6], "code=3 argv=echo a\\xff\\x1b {\"hex\":\"f\"}", "bytes that are no text");
	audit_entry_cells(&v.entries[1], cells);
	EQ_STR(cells[5], "cut off", "a begin whose command is gone");
	cleanup_json *o = audit_entry_json(&v.entries[0]);
	OK(o && json_object_get(o, "action") && !json_object_get(o, "phase") &&
			json_object_get(json_object_get(o, "end"), "detail"),
		"as JSON");
	audit_view_drop(&v, 0);
	OK(v.len == 1 && v.entries[0].seq == 2, "dropped");
}

static void test_filter(void)
{
	cleanup_audit_view struct audit_view v = {.sandbox = "b"};

	(void)add(&v, BEGIN("1", "a", "1"));
	(void)add(&v, BEGIN("2", "b", "1"));
	OK(v.len == 1 && v.entries[0].seq == 2, "of one sandbox");
	EQ_INT(add(&v, END("3", "1", "ok")), -1, "the end of another is not shown");
	v.since_ns = INT64_C(1769860801) * 1000000000;
	(void)add(&v, BEGIN("4", "b", "1"));
	EQ_INT(v.len, 1, "before the time");
	EQ_INT(add(&v, "{\"seq\":5,\"phase\":\"note\",\"sandbox\":\"b\",\"action\":\"recovered\"}"),
		1, "a record that is neither begin nor end is complete");
}

static void test_many(void)
{
	cleanup_audit_view struct audit_view v = {0};
	bool good = true;

	for (int i = 1; i <= 300; i++) {
		char text[512];
		(void)snprintf(text, sizeof(text), BEGIN("%d", "a", "1"), i);
		good = good && add(&v, text) == -1;
		if (i % 3 == 0)
			audit_view_drop(&v, (size_t)i % v.len);
	}
	OK(good && v.len == 200, "many, with drops between");
}

int main(void)
{
	(void)setenv("TZ", "UTC", 1);
	test_join();
	test_filter();
	test_many();
	return tap_done();
}
