/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/sock.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_close(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), copy = fd;

	errno = EPIPE;
	EQ_INT(fd_close(fd), -1, "closing gives -1");
	EQ_INT(errno, EPIPE, "and keeps errno");
	OK(fcntl(copy, F_GETFD) < 0, "it is closed");
	EQ_INT(fd_close(-1), -1, "an unset one is none");
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int taken = fd_take(&fd);
	OK(fd == -1 && fcntl(taken, F_GETFD) >= 0, "taken");
	fd_closep(&taken);
	EQ_INT(taken, -1, "closed and unset");
}

static void test_files(void)
{
	cleanup_fd int fd = memfd_create("x", MFD_CLOEXEC);
	char text[16] = "";
	cleanup_buf struct buf b;

	EQ_INT(fd_write_all(fd, "0123456789", 10), 0, "written");
	EQ_INT(fd_pwrite_all(fd, "ab", 2, 9), 0, "at an offset");
	EQ_INT(fd_pread_full(fd, text, sizeof(text), 1), 10, "read at an offset, to the end");
	OK(memcmp(text, "12345678ab", 10) == 0, "the bytes");
	EQ_INT(fd_read_full(fd, text, 4), 1, "at the file's position");
	(void)lseek(fd, 0, SEEK_SET);
	buf_init(&b, 11);
	EQ_INT(fd_read_all(fd, &b), 0, "all of it, at the maximum");
	EQ_STR(buf_cstr(&b), "012345678ab", "the content");
	buf_release(&b);
	buf_init(&b, 10);
	(void)lseek(fd, 0, SEEK_SET);
	EQ_INT(fd_read_all(fd, &b), -E2BIG, "over the maximum");
	EQ_INT(fd_write_all(-1, "x", 1), -EBADF, "an error is a negative errno");
	EQ_INT(fd_read_full(-1, text, 1), -EBADF, "reading too");
}

/* A pipe holds less than what is written at once: the write goes on as the reader reads. */
static void test_pipe(void)
{
	enum { SIZE = 300000 };
	static unsigned char data[SIZE], back[SIZE + 1];
	int p[2], status;

	for (int i = 0; i < SIZE; i++)
		data[i] = (unsigned char)(i * 31);
	if (pipe2(p, O_CLOEXEC) < 0)
		return;
	pid_t pid = fork();
	if (pid == 0) {
		(void)close(p[0]);
		_exit(fd_write_all(p[1], data, SIZE) < 0);
	}
	(void)close(p[1]);
	EQ_INT(fd_read_full(p[0], back, SIZE + 1), SIZE, "more than a pipe holds");
	OK(memcmp(data, back, SIZE) == 0, "arrives unchanged");
	OK(waitpid(pid, &status, 0) == pid && status == 0, "and was written in one call");
	EQ_INT(fd_set_nonblock(p[0], true), 0, "non-blocking");
	OK(fcntl(p[0], F_GETFL) & O_NONBLOCK, "it is");
	EQ_INT(fd_set_nonblock(p[0], false), 0, "and back");
	OK(!(fcntl(p[0], F_GETFL) & O_NONBLOCK), "it is not");
	(void)close(p[0]);
}

static void test_passing(void)
{
	int s[2], got[FD_PASS_MAX], many[FD_PASS_MAX + 1];
	char text[8] = "";
	size_t n = 99;
	cleanup_fd int fd = memfd_create("x", MFD_CLOEXEC);

	if (sock_pair(s) < 0 || fd_write_all(fd, "passed", 6) < 0)
		return;
	int fds[2] = {fd, fd};
	EQ_INT(fd_send_fds(s[0], "ab", 2, fds, 2), 2, "two descriptors sent");
	EQ_INT(fd_recv_fds(s[1], text, sizeof(text), got, FD_PASS_MAX, &n), 2, "received");
	OK(n == 2 && memcmp(text, "ab", 2) == 0, "with their bytes");
	OK(fcntl(got[0], F_GETFD) & FD_CLOEXEC, "CLOEXEC");
	EQ_INT(fd_pread_full(got[1], text, 6, 0), 6, "they are open");
	OK(memcmp(text, "passed", 6) == 0, "on the same file");
	(void)close(got[0]);
	(void)close(got[1]);
	EQ_INT(fd_send_fds(s[0], "c", 1, NULL, 0), 1, "none sent");
	OK(fd_recv_fds(s[1], text, 1, got, FD_PASS_MAX, &n) == 1 && n == 0, "none received");
	/* More than the receiver wants: closed, not leaked. */
	int before = dup(0);
	(void)close(before);
	OK(fd_send_fds(s[0], "d", 1, fds, 2) == 1, "two for a receiver who takes one");
	OK(fd_recv_fds(s[1], text, 1, got, 1, &n) == 1 && n == 1, "one is taken");
	(void)close(got[0]);
	int after = dup(0);
	(void)close(after);
	EQ_INT(after, before, "the other is closed");
	for (int i = 0; i <= FD_PASS_MAX; i++)
		many[i] = fd;
	EQ_INT(fd_send_fds(s[0], "e", 1, many, FD_PASS_MAX + 1), -E2BIG, "too many");
	(void)close(s[0]);
	EQ_INT(fd_recv_fds(s[1], text, 1, got, 1, &n), 0, "the end of the stream");
	EQ_INT(fd_send_fds(s[1], "f", 1, NULL, 0), -EPIPE, "no signal when the peer is gone");
	(void)close(s[1]);
}

int main(void)
{
	test_close();
	test_files();
	test_pipe();
	test_passing();
	return tap_done();
}
