/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/cursor.h"

#include "tap.h"

#include <stdlib.h>

static void test_values(void)
{
	cleanup_buf struct buf b;
	struct cursor c;

	buf_init(&b, 1000);
	buf_put_u8(&b, 0xfe);
	buf_put_u16(&b, 0xfedc);
	buf_put_u32(&b, 0xfedcba98);
	buf_put_u64(&b, UINT64_C(0xfedcba9876543210));
	buf_put_str(&b, "text");
	buf_put(&b, "xyz", 3);
	cursor_init(&c, b.data, b.len);
	EQ_INT(cursor_u8(&c), 0xfe, "u8");
	EQ_INT(cursor_u16(&c), 0xfedc, "u16");
	EQ_INT(cursor_u32(&c), 0xfedcba98, "u32");
	OK(cursor_u64(&c) == UINT64_C(0xfedcba9876543210), "u64");
	char *s = cursor_strdup(&c, 4);
	EQ_STR(s, "text", "a string at its maximum");
	free(s);
	OK(!cursor_done(&c), "something is left");
	const unsigned char *p = cursor_bytes(&c, 3);
	OK(p && memcmp(p, "xyz", 3) == 0, "bytes");
	OK(cursor_done(&c), "done");
	OK(cursor_bytes(&c, 0) != NULL && cursor_done(&c), "no bytes at the end");
}

static void test_short(void)
{
	struct cursor c;

	cursor_init(&c, "\x01\x02\x03", 3);
	EQ_INT(cursor_u32(&c), 0, "a short read is zero");
	OK(c.failed && !cursor_done(&c), "and fails the cursor");
	EQ_INT(cursor_u8(&c), 0, "for good, though a byte is left");
	OK(cursor_bytes(&c, 1) == NULL, "no bytes either");
	OK(cursor_strdup(&c, 10) == NULL, "nor a string");
	cursor_init(&c, "\x01\x02\x03", 3);
	EQ_INT(cursor_u16(&c), 0x0201, "control: what is there is read");
	OK(cursor_bytes(&c, SIZE_MAX) == NULL && c.failed, "a huge length");
}

/* u32 len, then bytes. */
static bool string_fails(const char *data, size_t len, size_t max)
{
	struct cursor c;

	cursor_init(&c, data, len);
	char *s = cursor_strdup(&c, max);
	bool failed = s == NULL && c.failed;
	free(s);
	return failed;
}

static void test_strings(void)
{
	struct cursor c;

	OK(!string_fails("\x03\0\0\0abc", 7, 3), "control: a good string");
	OK(string_fails("\x03\0\0\0abc", 7, 2), "longer than the maximum");
	OK(string_fails("\x04\0\0\0abc", 7, 10), "longer than what is left");
	OK(string_fails("\x03\0\0\0a\0c", 7, 10), "a NUL inside");
	OK(string_fails("\xff\xff\xff\xff", 4, SIZE_MAX), "a huge length");
	OK(string_fails("\x01\0\0", 3, 10), "a cut length");
	cursor_init(&c, "\0\0\0\0", 4);
	char *s = cursor_strdup(&c, 0);
	EQ_STR(s, "", "an empty string");
	OK(cursor_done(&c), "is all");
	free(s);
}

int main(void)
{
	test_values();
	test_short();
	test_strings();
	return tap_done();
}
