/* SPDX-License-Identifier: Apache-2.0 */
/* The mux over a socket pair: the test is the supervisor. */
#include "guest/mux.h"

#include "base/fd.h"
#include "tap.h"

#include <errno.h>
#include <sys/socket.h>
#include <errno.h>
#include <unistd.h>

static struct mux m;
static struct loop loop;
static int host;

static void setup(void)
{
	int pair[2];
	struct err e;

	OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0, "pair");
	mux_init(&m);
	OK(loop_init(&loop, &e) == 0, "loop");
	OK(loop_watch(&loop, &m.port, pair[1], WATCH_READ | WATCH_WRITE, &e) == 0, "watch");
	host = pair[0];
}

static void teardown(void)
{
	loop_unwatch(&loop, &m.port);
	(void)fd_close(loop.epfd);
	(void)fd_close(host);
	mux_release(&m);
}

static void put(const void *data, size_t len)
{
	const unsigned char *p = data;

	/* A socket holds less than the largest frame: the agent takes some in between. */
	while (len > 0) {
		ssize_t n = write(host, p, len);
		if (n < 0) {
			loop_wait(&loop, 0);
			if (errno != EAGAIN || !mux_fill(&m))
				break;
			continue;
		}
		p += n;
		len -= (size_t)n;
	}
	EQ_INT(len, 0, "sent");
}

static void put_frame(uint16_t type, uint32_t stream, uint32_t epoch, size_t len)
{
	static unsigned char payload[FRAME_PAYLOAD_MAX];
	cleanup_buf struct buf b;

	buf_init(&b, FRAME_HEADER_SIZE + FRAME_PAYLOAD_MAX);
	frame_put(&b, type, stream, epoch, payload, len);
	put(b.data, b.len);
}

/* The next frame, reading as much as needed; 0 when there is none. */
static int take(struct frame *f)
{
	for (;;) {
		loop_wait(&loop, 0);
		int r = mux_next(&m, f);
		if (r != 0 || !mux_fill(&m))
			return r;
	}
}

static void expect(uint32_t stream)
{
	struct frame f = {0};

	EQ_INT(take(&f), 1, "a frame");
	EQ_INT(f.stream, stream, "the right one");
}

static void expect_none(void)
{
	struct frame f;

	EQ_INT(take(&f), 0, "no frame");
}

static void fill_nonce(unsigned char *nonce, int tag)
{
	for (int i = 0; i < AGENT_NONCE_SIZE; i++)
		nonce[i] = (unsigned char)(tag * 37 + i * 11);
}

static void test_frames(void)
{
	struct frame f;

	setup();
	put_frame(AGENT_PING, 1, 0, 0);
	put_frame(AGENT_STDIN, 2, 0, FRAME_PAYLOAD_MAX);
	put_frame(AGENT_PING, 3, 9, 0);
	put_frame(AGENT_PING, 4, 0, 0);
	expect(1);
	expect(2);
	expect(4);
	expect_none();
	for (uint32_t i = 0; i < 40; i++) {
		put_frame(AGENT_STDIN, 100 + i, 0, 30000);
		expect(100 + i);
	}
	put("garbage garbage garbage", 23);
	EQ_INT(take(&f), -EPROTO, "the place is lost");
	put_frame(AGENT_PING, 5, 0, 0);
	expect_none();
	teardown();
}

static void read_back(const unsigned char *nonce)
{
	unsigned char got[4096];
	struct frame f = {0};

	OK(mux_flush(&m) == 1, "flushed");
	OK(read(host, got, AGENT_NONCE_SIZE) == AGENT_NONCE_SIZE, "the nonce first");
	OK(memcmp(got, nonce, AGENT_NONCE_SIZE) == 0, "and right");
	ssize_t n = read(host, got, sizeof(got));
	EQ_INT(frame_parse(got, n > 0 ? (size_t)n : 0, &f), FRAME_HEADER_SIZE, "then a frame");
	EQ_INT(f.epoch, m.epoch, "of the new epoch");
}

static void test_epoch(void)
{
	unsigned char nonce[AGENT_NONCE_SIZE];
	cleanup_buf struct buf b;

	buf_init(&b, 4096);
	setup();
	/* Old: a whole frame not taken, and half of another; a reply that was not sent. */
	put_frame(AGENT_PING, 1, 0, 0);
	frame_put(&b, AGENT_STDIN, 1, 0, "0123456789", 10);
	put(b.data, b.len - 5);
	loop_wait(&loop, 0);
	EQ_INT(mux_fill(&m), 1, "buffered");
	mux_send(&m, AGENT_REPLY, 1, "old", 3);
	fill_nonce(nonce, 1);
	mux_new_epoch(&m, 1, nonce);
	mux_send(&m, AGENT_RESUMED, 0, NULL, 0);
	read_back(nonce);
	put_frame(AGENT_PING, 2, 1, 0);
	expect_none();
	put(nonce, 10);
	expect_none();
	put(nonce + 10, AGENT_NONCE_SIZE - 10);
	put_frame(AGENT_PING, 3, 0, 0);
	put_frame(AGENT_PING, 4, 1, 0);
	expect(4);
	expect_none();
	teardown();
}

static void test_nonce_first(void)
{
	unsigned char nonce[AGENT_NONCE_SIZE];
	cleanup_buf struct buf b;
	struct frame f;

	buf_init(&b, 8192);
	setup();
	/* Swallowed as the rest of a half frame. */
	frame_put(&b, AGENT_STDIN, 1, 0, (unsigned char[5000]){0}, 5000);
	put(b.data, 100);
	fill_nonce(nonce, 2);
	put(nonce, sizeof(nonce));
	put_frame(AGENT_PING, 5, 1, 0);
	put_frame(AGENT_STDIN, 6, 1, 20000);
	while (take(&f) > 0)
		;
	mux_new_epoch(&m, 1, nonce);
	expect(5);
	expect(6);
	expect_none();
	/* Or taken for a broken header. */
	fill_nonce(nonce, 3);
	put(nonce, sizeof(nonce));
	put_frame(AGENT_PING, 7, 2, 0);
	EQ_INT(take(&f), -EPROTO, "the nonce is no frame");
	mux_new_epoch(&m, 2, nonce);
	expect(7);
	/* A record that no nonce follows, then the right one. */
	fill_nonce(nonce, 9);
	mux_new_epoch(&m, 3, nonce);
	put_frame(AGENT_PING, 8, 3, 0);
	expect_none();
	fill_nonce(nonce, 4);
	put(nonce, sizeof(nonce));
	mux_new_epoch(&m, 4, nonce);
	put_frame(AGENT_PING, 9, 4, 0);
	expect(9);
	teardown();
}

static void test_output(void)
{
	static unsigned char data[AGENT_DATA_MAX], got[1 << 20];
	size_t total = 0, sent = 0;

	setup();
	while (mux_has_room(&m)) {
		mux_send(&m, AGENT_STDOUT, 1, data, sizeof(data));
		sent += FRAME_HEADER_SIZE + sizeof(data);
	}
	OK(sent <= MUX_OUT_ROOM + FRAME_HEADER_SIZE + AGENT_DATA_MAX, "bounded");
	for (int i = 0; i < 200; i++) {
		loop_wait(&loop, 0);
		(void)mux_flush(&m);
		if (mux_has_room(&m) && sent < 3000000) {
			mux_send(&m, AGENT_STDOUT, 1, data, sizeof(data));
			sent += FRAME_HEADER_SIZE + sizeof(data);
		}
		ssize_t n = read(host, got, 70000);
		total += n > 0 ? (size_t)n : 0;
	}
	OK(mux_flushed(&m), "all written");
	EQ_INT(total, sent, "all read");
	teardown();
}

int main(void)
{
	test_frames();
	test_epoch();
	test_nonce_first();
	test_output();
	return tap_done();
}
