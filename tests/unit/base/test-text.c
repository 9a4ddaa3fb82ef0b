/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "tap.h"

static void escaped(const char *in, const char *want, const char *what)
{
	char out[128], again[128];

	text_escape(in, out, sizeof(out));
	EQ_STR(out, want, what);
	text_escape(out, again, sizeof(again));
	EQ_STR(again, want, "escaped again, it is the same");
}

static void test_escape(void)
{
	char small[6];

	escaped("plain caf\xc3\xa9 \xf0\x9f\x90\xb3", "plain caf\xc3\xa9 \xf0\x9f\x90\xb3", "text");
	escaped("\x1b[2J\n\t\x7f", "\\x1b[2J\\x0a\\x09\\x7f", "control bytes");
	escaped("a\\b", "a\\b", "a backslash stays");
	escaped("a\xe2\x80\xae"
		"b\xe2\x81\xa6"
		"c",
		"a\\xe2\\x80\\xaeb\\xe2\\x81\\xa6c", "characters that turn the direction");
	escaped("a\xe2\x80\xa8z\xef\xbb\xbf", "a\\xe2\\x80\\xa8z\\xef\\xbb\\xbf",
		"a line separator, a byte order mark");
	escaped("\xf3\xa0\x81\x81", "\\xf3\\xa0\\x81\\x81", "a tag character");
	escaped("\xe2\x80\x8d", "\xe2\x80\x8d", "a joiner is part of words");
	escaped("\xc2\x9b"
		"31m",
		"\\xc2\\x9b31m", "C1: CSI in UTF-8");
	escaped("\x9b"
		"31m\xff",
		"\\x9b31m\\xff", "bytes that are no UTF-8");
	escaped("\xe2\x82", "\\xe2\\x82", "a sequence that is cut");
	escaped("\xc0\xaf", "\\xc0\\xaf", "an overlong one");
	text_escape("ab\x01"
		    "cd",
		small, sizeof(small));
	EQ_STR(small, "ab", "no half escapes at the end");
	for (const char *in = "abcde\\x1bz", *end = in + 5; in < end; in++) {
		text_escape(in, small, sizeof(small));
		EQ_INT(strlen(small), in == end - 1 ? 5 : end - in,
			"nor of what was escaped before");
	}
	text_escape("abc\\xyz", small, sizeof(small));
	EQ_STR(small, "abc\\x", "what only looks like it is cut anywhere");
	text_escape("abc\xc3\xa9z", small, sizeof(small));
	EQ_STR(small, "abc\xc3\xa9", "nor half characters");
}

int main(void)
{
	uint64_t v;

	EQ_INT(text_parse_u64("64", 1, 64, &v), 0, "a number at its maximum");
	EQ_INT(v, 64, "its value");
	OK(text_parse_u64("65", 1, 64, &v) < 0, "over the maximum");
	OK(text_parse_u64("18446744073709551616", 0, UINT64_MAX, &v) < 0, "over 64 bits");
	OK(text_parse_u64("1x", 0, 99, &v) < 0, "trailing text");
	EQ_INT(text_parse_duration_ms("1m30s", &v), 0, "a duration of two units");
	EQ_INT(v, 90000, "in milliseconds");
	EQ_INT(text_parse_duration_ms("10", &v), 0, "a bare number");
	EQ_INT(v, 10000, "is seconds");
	OK(text_parse_duration_ms("0s", &v) < 0, "zero is no duration");
	OK(text_parse_duration_ms("5 s", &v) < 0, "a space inside");
	OK(text_is_sandbox_name("code-runner"), "a sandbox name");
	OK(!text_is_sandbox_name("ls"), "a reserved name");
	OK(!text_is_sandbox_name("-rf"), "a leading dash");
	OK(!text_is_sandbox_name("a/b"), "a slash");
	OK(text_is_label("caf\xc3\xa9 1"), "a label in UTF-8");
	OK(!text_is_label("a\nb"), "a newline in a label");
	OK(!text_is_label("\xc3"), "a cut sequence in a label");
	OK(!text_is_label("\xc2\x85"), "a C1 control in a label");
	test_escape();
	EQ_INT(text_distance("rnu", "run", 3), 1, "a swap is one edit");
	EQ_INT(text_distance("abcdef", "zzzzzz", 2), 3, "cut off at the limit");
	return tap_done();
}
