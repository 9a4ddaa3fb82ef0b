/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"

#include "tap.h"

#include <stdlib.h>

static const char *const headers[] = {"NAME", "STATE", "SIZE", NULL};

static void fill(struct table *t)
{
	table_init(t, headers, 1);
	table_row(t, SHADE_GOOD, (const char *const[]){"a", "running", "1 B"});
	table_row(t, SHADE_BAD, (const char *const[]){"caf\xc3\xa9-long", NULL, "x\x1by"});
}

static void test_table(void)
{
	cleanup_table struct table t;
	cleanup_buf struct buf b;
	struct err e;

	buf_init(&b, 4096);
	fill(&t);
	OK(table_format(&t, false, &b, &e) >= 0, "a table");
	EQ_STR(buf_cstr(&b),
		"NAME        STATE     SIZE\n"
		"a           running   1 B\n"
		"caf\xc3\xa9-long   -         x\\x1by\n",
		"aligned by characters, escaped, - for nothing");
	buf_reset(&b);
	OK(table_format(&t, true, &b, &e) >= 0, "in colour");
	OK(strstr(buf_cstr(&b), "\033[32mrunning\033[0m") &&
			strstr(buf_cstr(&b), "\033[1mNAME\033[0m") &&
			strstr(buf_cstr(&b), "\033[31m-\033[0m"),
		"header and state");
	buf_release(&b);
	buf_init(&b, 20);
	OK(table_format(&t, false, &b, &e) < 0, "too long for the buffer: an error");
}

static void test_time(void)
{
	char s[OUTPUT_TIME_SIZE];

	output_time(INT64_C(1769860800) * 1000000000, s);
	EQ_STR(s, "2026-01-31 12:00:00", "a time");
	output_time(0, s);
	EQ_STR(s, "-", "no time");
}

int main(void)
{
	(void)setenv("TZ", "UTC", 1);
	test_table();
	test_time();
	return tap_done();
}
