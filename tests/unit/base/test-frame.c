/* SPDX-License-Identifier: Apache-2.0 */
#include "base/frame.h"

#include "tap.h"

#include <errno.h>

static void test_layout(void)
{
	static const unsigned char want[] = {
		2, 0, 0, 0, 0x34, 0x12, 0xc0, 0x38, 7, 0, 0, 0, 9, 0, 0, 0, 'h', 'i'};
	cleanup_buf struct buf b;

	buf_init(&b, 100);
	frame_put(&b, 0x1234, 7, 9, "hi", 2);
	OK(b.len == sizeof(want) && memcmp(b.data, want, sizeof(want)) == 0, "byte for byte");
}

static void test_parse(void)
{
	cleanup_buf struct buf b;
	struct frame f = {0};
	int early = 0;

	buf_init(&b, 1000);
	frame_put(&b, 5, 6, 7, "payload", 7);
	frame_put(&b, 8, 0, 0, NULL, 0);
	for (size_t n = 0; n < 23; n++)
		early += frame_parse(b.data, n, &f) != 0;
	EQ_INT(early, 0, "a part of a frame: more bytes are needed");
	EQ_INT(frame_parse(b.data, b.len, &f), 23, "the first frame");
	OK(f.type == 5 && f.stream == 6 && f.epoch == 7 && f.len == 7 &&
			memcmp(f.payload, "payload", 7) == 0,
		"its members");
	EQ_INT(frame_parse(b.data + 23, b.len - 23, &f), 16, "an empty one");
	OK(f.type == 8 && f.len == 0, "its members");
	b.data[6] ^= 1;
	EQ_INT(frame_parse(b.data, b.len, &f), -EPROTO, "another magic");
	b.data[6] ^= 1;
	EQ_INT(frame_parse(b.data, b.len, &f), 23, "control: put right");
}

static void test_limits(void)
{
	static unsigned char payload[FRAME_PAYLOAD_MAX + 1];
	cleanup_buf struct buf b;
	struct frame f;

	buf_init(&b, 1 << 20);
	frame_put(&b, 1, 1, 1, payload, FRAME_PAYLOAD_MAX);
	OK(!buf_failed(&b), "the largest payload");
	EQ_INT(frame_parse(b.data, b.len, &f), (int)b.len, "is parsed");
	b.data[0] = 1;
	EQ_INT(frame_parse(b.data, b.len, &f), -EPROTO, "a longer one is refused at its header");
	EQ_INT(frame_parse(b.data, FRAME_HEADER_SIZE, &f), -EPROTO, "before it has come");
	size_t len = b.len;
	frame_put(&b, 1, 1, 1, payload, FRAME_PAYLOAD_MAX + 1);
	OK(buf_failed(&b) && b.len == len, "and is not made");
	buf_release(&b);
	buf_init(&b, FRAME_HEADER_SIZE + 3);
	frame_put(&b, 1, 1, 1, payload, 4);
	OK(buf_failed(&b) && b.len == 0, "no half frame when there is no room");
}

int main(void)
{
	test_layout();
	test_parse();
	test_limits();
	return tap_done();
}
