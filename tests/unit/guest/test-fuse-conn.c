/* SPDX-License-Identifier: Apache-2.0 */
/* A FUSE connection over a socket pair that keeps messages apart: the test is the kernel. */
#include "guest/fuse-conn.h"

#include "base/fd.h"
#include "tap.h"

#include <errno.h>
#include <linux/fuse.h>
#include <sys/socket.h>
#include <unistd.h>

static struct fuse_conn c;
static struct fuse_slots slots;
static int kernel;
static unsigned char data[FUSE_CONN_READ_SIZE];

static void setup(void)
{
	int pair[2];

	OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0,
		"pair");
	c = (struct fuse_conn){.id = 7, .fd = pair[0], .readable = true, .slots = &slots};
	kernel = pair[1];
}

static void teardown(void)
{
	fuse_conn_close(&c);
	(void)fd_close(kernel);
}

static void ask(uint32_t opcode, uint64_t unique)
{
	struct fuse_in_header h = {.len = sizeof(h), .opcode = opcode, .unique = unique};

	OK(write(kernel, &h, sizeof(h)) == (ssize_t)sizeof(h), "the kernel asks");
	c.readable = true;
}

static ssize_t next(void)
{
	int slot;

	return fuse_conn_next(&c, data, &slot);
}

static enum fuse_conn_reply answer(uint64_t unique, int32_t error, const void *more, size_t len)
{
	unsigned char message[256] = {0};
	struct fuse_out_header h = {
		.len = (uint32_t)(sizeof(h) + len), .error = error, .unique = unique};

	memcpy(message, &h, sizeof(h));
	if (len)
		memcpy(message + sizeof(h), more, len);
	return fuse_conn_reply(&c, message, h.len);
}

/* What the kernel was given; unique 0 when nothing. */
static struct fuse_out_header got(void)
{
	struct fuse_out_header h = {0};
	unsigned char message[256];

	if (read(kernel, message, sizeof(message)) >= (ssize_t)sizeof(h))
		memcpy(&h, message, sizeof(h));
	return h;
}

static void test_requests(void)
{
	setup();
	ask(FUSE_LOOKUP, 2);
	ask(FUSE_INTERRUPT, 3);
	ask(FUSE_FORGET, 4);
	EQ_INT(next(), sizeof(struct fuse_in_header), "a request");
	EQ_INT(c.out_len, 1, "is out");
	EQ_INT(next(), sizeof(struct fuse_in_header), "FORGET");
	EQ_INT(c.out_len, 1, "has no answer; the interrupt was left out");
	EQ_INT(next(), 0, "no more");
	EQ_INT(answer(99, 0, NULL, 0), FUSE_REPLY_DROPPED, "an answer to nothing");
	EQ_INT(answer(0, FUSE_NOTIFY_INVAL_INODE, NULL, 0), FUSE_REPLY_NOTIFICATION,
		"a notification");
	EQ_INT(got().unique, 0, "neither is written here");
	EQ_INT(answer(2, -ENOENT, NULL, 0), FUSE_REPLY_DONE, "the answer");
	EQ_INT(got().error, -ENOENT, "arrives");
	EQ_INT(answer(2, 0, NULL, 0), FUSE_REPLY_DROPPED, "only once");
	struct fuse_out_header h = {.len = 17, .unique = 2};
	EQ_INT(fuse_conn_reply(&c, &h, sizeof(h)), FUSE_REPLY_DROPPED, "a wrong length");
	EQ_INT(fuse_conn_reply(&c, &h, 3), FUSE_REPLY_DROPPED, "too short");
	teardown();
}

static void test_limit(void)
{
	setup();
	for (unsigned i = 0; i < FS_REQUESTS_MAX; i++) {
		ask(FUSE_GETATTR, 2 + i);
		OK(next() > 0, "taken");
	}
	ask(FUSE_GETATTR, 1000);
	OK(!fuse_conn_may_read(&c), "full");
	EQ_INT(next(), 0, "one more is not read");
	EQ_INT(answer(5, 0, NULL, 0), FUSE_REPLY_DONE, "one is answered");
	OK(next() > 0, "then it is");
	OK(!fuse_conn_fail(&c), "all fail");
	unsigned failed = 0;
	for (struct fuse_out_header h = got(); h.unique; h = got())
		failed += h.error == -EIO;
	EQ_INT(failed, FS_REQUESTS_MAX, "with EIO");
	EQ_INT(c.out_len, 0, "nothing is out");
	teardown();
}

static void test_init(void)
{
	struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION, .minor = 31};

	setup();
	ask(FUSE_INIT, 2);
	OK(next() > 0, "INIT");
	ask(FUSE_GETATTR, 4);
	OK(next() > 0, "and another");
	OK(fuse_conn_fail(&c), "INIT is to be sent again");
	EQ_INT(got().unique, 4, "the other has failed");
	EQ_INT(got().unique, 0, "it alone");
	EQ_INT(answer(2, 0, &init, sizeof(init)), FUSE_REPLY_READY, "accepted");
	OK(c.ready, "ready");
	teardown();
	setup();
	ask(FUSE_INIT, 2);
	OK(next() > 0, "INIT");
	EQ_INT(answer(2, -EPERM, NULL, 0), FUSE_REPLY_REFUSED, "refused");
	teardown();
	setup();
	ask(FUSE_INIT, 2);
	OK(next() > 0, "INIT");
	init.major = 8;
	EQ_INT(answer(2, 0, &init, sizeof(init)), FUSE_REPLY_REFUSED, "another version");
	teardown();
}

int main(void)
{
	test_requests();
	test_limit();
	test_init();
	return tap_done();
}
