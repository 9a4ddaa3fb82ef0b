/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sink.h"

#include "base/fd.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned char block[SINK_WINDOW];

static void test_window(void)
{
	struct sink s;
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	sink_init(&s, fd);
	EQ_INT(sink_put(&s, block, 1), -EPROTO, "nothing is granted at first");
	EQ_INT(sink_grant(&s), SINK_WINDOW, "the first grant is the whole window");
	EQ_INT(sink_grant(&s), 0, "and is granted once");
	EQ_INT(sink_put(&s, block, SINK_WINDOW - 1), 0, "within the window");
	EQ_INT(sink_put(&s, block, 2), -EPROTO, "one byte over it");
	EQ_INT(sink_pending(&s), SINK_WINDOW - 1, "what was refused is not held");
	ssize_t n = sink_write(&s);
	OK(n > 0 && sink_pending(&s) == SINK_WINDOW - 1 - (size_t)n, "a write");
	while (sink_pending(&s) > 0)
		if (sink_write(&s) < 0)
			break;
	EQ_INT(sink_grant(&s), SINK_WINDOW - 1, "what was written is granted again");
	sink_release(&s);
	(void)fd_close(fd);
}

/* Every byte comes out once and in order, whatever the pieces. */
static void test_order(void)
{
	enum { TOTAL = 3000000 };
	struct sink s;
	char path[] = "/tmp/kosa8-sink-XXXXXX";
	int fd = mkstemp(path);
	uint32_t in = 0, seed = 1, window = 0;
	bool same = true;

	(void)unlink(path);
	sink_init(&s, fd);
	EQ_INT(s.kind, SINK_FILE, "a file");
	while (in < TOTAL || sink_pending(&s) > 0) {
		unsigned char piece[8192];
		uint32_t len = (seed = seed * 1103515245 + 12345) >> 16 & 0x1fff;
		window += sink_grant(&s);
		len = len > window ? window : len;
		len = len > TOTAL - in ? TOTAL - in : len;
		for (uint32_t i = 0; i < len; i++)
			piece[i] = (unsigned char)((in + i) * 7 >> 3);
		if (sink_put(&s, piece, len) < 0)
			break;
		window -= len;
		in += len;
		if ((seed & 0x300) == 0 || len == 0)
			same = same && sink_write(&s) >= 0;
	}
	for (uint32_t at = 0; at < TOTAL; at += sizeof(block)) {
		ssize_t n = fd_pread_full(fd, block, sizeof(block), at);
		for (ssize_t i = 0; i < n; i++)
			same = same && block[i] == (unsigned char)((at + (uint32_t)i) * 7 >> 3);
	}
	OK(same && in == TOTAL && lseek(fd, 0, SEEK_END) == TOTAL, "all bytes, in order");
	sink_release(&s);
	(void)fd_close(fd);
}

static void test_pipe(void)
{
	struct sink s;
	int pipefd[2];
	ssize_t n = 0;

	if (!OK(pipe2(pipefd, O_CLOEXEC) == 0, "a pipe"))
		return;
	sink_init(&s, pipefd[1]);
	EQ_INT(s.kind, SINK_NONBLOCK, "is opened anew");
	OK(!(fcntl(pipefd[1], F_GETFL) & O_NONBLOCK), "what was inherited stays blocking");
	(void)sink_grant(&s);
	OK(sink_put(&s, block, SINK_WINDOW) == 0, "more than it holds");
	while ((n = sink_write(&s)) > 0)
		continue;
	EQ_INT(n, -EAGAIN, "a full pipe does not block");
	(void)fd_close(pipefd[0]);
	EQ_INT(sink_write(&s), -EPIPE, "a closed one is seen");
	sink_release(&s);
	(void)fd_close(pipefd[1]);
}

int main(void)
{
	(void)signal(SIGPIPE, SIG_IGN);
	test_window();
	test_order();
	test_pipe();
	return tap_done();
}
