/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include "tap.h"

#include <stdlib.h>

static void test_append(void)
{
	static const unsigned char want[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 3,
		0, 0, 0, 'a', 'b', 'c', '4', '2'};
	cleanup_buf struct buf b;

	buf_init(&b, 100);
	EQ_STR(buf_cstr(&b), "", "empty");
	buf_put_u8(&b, 1);
	buf_put_u16(&b, 0x0302);
	buf_put_u32(&b, 0x07060504);
	buf_put_u64(&b, UINT64_C(0x0f0e0d0c0b0a0908));
	buf_put_str(&b, "abc");
	buf_putf(&b, "%d", 42);
	buf_put(&b, NULL, 0);
	OK(!buf_failed(&b) && b.len == sizeof(want) && memcmp(b.data, want, sizeof(want)) == 0,
		"integers are little-endian, strings have their length");
	buf_consume(&b, 19);
	EQ_STR(buf_cstr(&b), "abc42", "the front consumed");
	EQ_INT(b.len, 5, "the NUL is not counted");
	char *taken = buf_take_cstr(&b);
	EQ_STR(taken, "abc42", "taken");
	OK(b.len == 0 && b.data == NULL && b.max == 100, "empty afterwards");
	free(taken);
}

static void test_maximum(void)
{
	cleanup_buf struct buf b;

	buf_init(&b, 4);
	buf_put(&b, "abcd", 4);
	OK(!buf_failed(&b), "filled to its maximum");
	EQ_STR(buf_cstr(&b), "abcd", "also as a string");
	buf_put_u8(&b, 'e');
	OK(buf_failed(&b), "one more byte fails it");
	EQ_INT(b.len, 4, "and is not there");
	buf_consume(&b, 4);
	buf_put_u8(&b, 'x');
	OK(buf_failed(&b) && b.len == 0, "it stays failed");
	OK(buf_cstr(&b) == NULL && buf_take_cstr(&b) == NULL, "and gives no string");
	buf_reset(&b);
	buf_putf(&b, "%s", "wxyz");
	EQ_STR(buf_cstr(&b), "wxyz", "until it is reset");
	buf_putf(&b, "%d", 1);
	OK(buf_failed(&b), "printing over the maximum fails it");
	buf_reset(&b);
	OK(buf_extend(&b, 5) == NULL && buf_failed(&b), "extending over it too");
}

static void test_huge(void)
{
	cleanup_buf struct buf b;

	buf_init(&b, SIZE_MAX);
	buf_put(&b, "a", 1);
	OK(buf_extend(&b, SIZE_MAX - 1) == NULL && buf_failed(&b), "no overflow without a maximum");
	EQ_INT(b.len, 1, "the length stays");
}

static void test_growth(void)
{
	cleanup_buf struct buf b;
	int wrong = 0;

	buf_init(&b, 1 << 20);
	for (int i = 0; i < 100000; i++)
		buf_put_u8(&b, (uint8_t)(i * 7));
	for (int i = 0; i < 100000; i++)
		wrong += b.data[i] != (uint8_t)(i * 7);
	EQ_INT(wrong, 0, "100,000 bytes one by one");
}

int main(void)
{
	test_append();
	test_maximum();
	test_huge();
	test_growth();
	return tap_done();
}
