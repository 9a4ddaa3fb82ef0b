/* SPDX-License-Identifier: Apache-2.0 */
/* A link against a scripted agent on a socketpair: no QEMU, no loop. */
#include "supervisor/link.h"

#include "base/fd.h"
#include "base/sock.h"

#include "tap.h"

#include <errno.h>
#include <unistd.h>

#define EPOCH 5
#define OUT_MAX 4096

static const unsigned char nonce[AGENT_NONCE_SIZE] = "thirty-two bytes that differ....";

struct bench {
	struct link link;
	int fds[2]; /* ours, the agent's */
	int frames, broken;
	bool refuse, abort; /* what the next frame leads to */
	char why[ERR_WHAT_MAX];
};

static int on_frame(void *ctx, const struct frame *f, struct err *e)
{
	struct bench *b = ctx;

	(void)f;
	b->frames++;
	if (b->abort)
		link_abort(&b->link);
	return b->refuse ? err_set(e, ERR_PROTOCOL, 0, "refused") : 0;
}

static void on_broken(void *ctx, const struct err *why)
{
	struct bench *b = ctx;

	b->broken++;
	(void)snprintf(b->why, sizeof(b->why), "%s", why->what);
}

static void begin(struct bench *b)
{
	static const struct link_events events = {on_frame, on_broken};

	*b = (struct bench){0};
	if (sock_pair(b->fds) < 0 || fd_set_nonblock(b->fds[0], true) < 0 ||
		fd_set_nonblock(b->fds[1], true) < 0)
		_exit(1);
	link_init(&b->link, b->fds[0], EPOCH, OUT_MAX, &events, b);
	EQ_INT(link_sync(&b->link, nonce), 0, "a new epoch");
}

static void end(struct bench *b)
{
	link_release(&b->link);
	(void)fd_close(b->fds[0]);
	(void)fd_close(b->fds[1]);
}

static void say(struct bench *b, const void *data, size_t len)
{
	if (fd_write_all(b->fds[1], data, len) < 0)
		_exit(1);
	(void)link_process(&b->link);
}

static void say_frame(struct bench *b, uint32_t epoch)
{
	cleanup_buf struct buf out = {0};

	buf_init(&out, 64);
	frame_put(&out, AGENT_FUSE, 1, epoch, "x", 1);
	say(b, out.data, out.len);
}

/* What reached the agent since the last call. */
static ssize_t heard(struct bench *b, unsigned char *ret, size_t size)
{
	(void)link_process(&b->link);
	ssize_t n = read(b->fds[1], ret, size);
	return n < 0 ? 0 : n;
}

static void open_up(struct bench *b)
{
	unsigned char raw[64];

	begin(b);
	EQ_INT(heard(b, raw, sizeof(raw)), AGENT_NONCE_SIZE, "the nonce goes out");
	say(b, nonce, sizeof(nonce));
	EQ_INT(b->link.state, LINK_OPEN, "its echo opens the link");
}

static void test_sync(void)
{
	unsigned char raw[256];
	struct bench b;

	begin(&b);
	say_frame(&b, EPOCH);
	EQ_INT(b.frames, 0, "what comes before the nonce is dropped");
	link_send(&b.link, AGENT_FUSE, 1, "y", 1);
	EQ_INT(heard(&b, raw, sizeof(raw)), AGENT_NONCE_SIZE, "what is sent waits for the nonce");
	say(&b, nonce, 10);
	EQ_INT(b.link.state, LINK_SYNCING, "a part of it is not enough");
	say(&b, nonce + 10, sizeof(nonce) - 10);
	EQ_INT(b.link.state, LINK_OPEN, "all of it is");
	EQ_INT(heard(&b, raw, sizeof(raw)), FRAME_HEADER_SIZE + 1, "then what waited follows");
	say_frame(&b, EPOCH - 1);
	EQ_INT(b.frames, 0, "a frame of another epoch is ignored");
	say_frame(&b, EPOCH);
	EQ_INT(b.frames, 1, "one of this epoch is not");
	end(&b);
}

static void test_hold(void)
{
	unsigned char raw[256];
	struct bench b;

	open_up(&b);
	link_hold(&b.link);
	link_send(&b.link, AGENT_FUSE, 1, "y", 1);
	EQ_INT(heard(&b, raw, sizeof(raw)), 0, "held: nothing goes out");
	EQ_INT((int)link_queued(&b.link), FRAME_HEADER_SIZE + 1, "it is queued");
	say_frame(&b, EPOCH);
	EQ_INT(b.frames, 1, "but frames come in");
	EQ_INT(link_unhold(&b.link), 0, "released");
	EQ_INT(heard(&b, raw, sizeof(raw)), FRAME_HEADER_SIZE + 1, "it goes out");
	end(&b);
}

/* The guest is asked to stand still before its agent's nonce on this port was seen. */
static void test_hold_while_syncing(void)
{
	unsigned char raw[256];
	struct bench b;

	begin(&b);
	(void)heard(&b, raw, sizeof(raw));
	link_hold(&b.link);
	link_send(&b.link, AGENT_FUSE, 1, "y", 1);
	say(&b, nonce, sizeof(nonce));
	EQ_INT(b.link.state, LINK_HELD, "the nonce does not end the hold");
	EQ_INT(heard(&b, raw, sizeof(raw)), 0, "nothing goes out");
	EQ_INT(link_unhold(&b.link), 0, "released");
	EQ_INT(heard(&b, raw, sizeof(raw)), FRAME_HEADER_SIZE + 1, "it goes out");
	end(&b);
	begin(&b);
	link_hold(&b.link);
	EQ_INT(link_unhold(&b.link), 0, "released before the nonce");
	say(&b, nonce, sizeof(nonce));
	EQ_INT(b.link.state, LINK_OPEN, "it opens then");
	end(&b);
}

static void test_broken(void)
{
	unsigned char junk[FRAME_HEADER_SIZE] = {0}, big[1024] = {0};
	struct bench b;

	open_up(&b);
	say(&b, junk, sizeof(junk));
	EQ_INT(b.broken, 1, "bytes that are no frame break it");
	OK(link_process(&b.link) < 0, "it stays broken");
	EQ_INT(b.broken, 1, "and says so once");
	end(&b);

	open_up(&b);
	b.refuse = true;
	say_frame(&b, EPOCH);
	EQ_INT(b.broken, 1, "a frame that is refused breaks it");
	EQ_STR(b.why, "refused", "with the reason");
	end(&b);

	open_up(&b);
	b.abort = true;
	say_frame(&b, EPOCH);
	OK(link_process(&b.link) < 0, "it can be ended from its own callback");
	EQ_INT(b.broken, 0, "without a report");
	end(&b);

	open_up(&b);
	link_hold(&b.link);
	for (int i = 0; i < 3; i++)
		link_send(&b.link, AGENT_FUSE, 1, big, sizeof(big));
	EQ_INT(b.broken, 0, "what fits may wait");
	link_send(&b.link, AGENT_FUSE, 1, big, sizeof(big));
	EQ_INT(b.broken, 1, "more than the maximum breaks it");
	end(&b);

	open_up(&b);
	b.fds[1] = fd_close(b.fds[1]);
	OK(link_process(&b.link) < 0, "a closed port");
	EQ_INT(b.broken, 1, "is told");
	end(&b);
}

int main(void)
{
	test_sync();
	test_hold();
	test_hold_while_syncing();
	test_broken();
	return tap_done();
}
