/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "tap.h"

int main(void)
{
	uint64_t v;
	char out[64];

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
	text_escape("a\x1b[1m\\", out, sizeof(out));
	EQ_STR(out, "a\\x1b[1m\\x5c", "control bytes are escaped");
	EQ_INT(text_distance("rnu", "run", 3), 1, "a swap is one edit");
	EQ_INT(text_distance("abcdef", "zzzzzz", 2), 3, "cut off at the limit");
	return tap_done();
}
