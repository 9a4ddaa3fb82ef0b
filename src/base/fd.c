/* SPDX-License-Identifier: Apache-2.0 */
#include "fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Smaller ones are seldom whole blocks of a file system. */
#define HOLE_MIN 4096u

int fd_close(int fd)
{
	int saved = errno;

	if (fd >= 0)
		(void)close(fd);
	errno = saved;
	return -1;
}

void fd_closep(int *fd)
{
	*fd = fd_close(*fd);
}

int fd_take(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

int fd_set_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

int fd_write_all(int fd, const void *data, size_t len)
{
	const unsigned char *p = data;

	while (len > 0) {
		ssize_t n = write(fd, p, len);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int fd_pwrite_all(int fd, const void *data, size_t len, off_t offset)
{
	const unsigned char *p = data;

	while (len > 0) {
		ssize_t n = pwrite(fd, p, len, offset);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		p += n;
		offset += n;
		len -= (size_t)n;
	}
	return 0;
}

int fd_write_sparse(int fd, const void *data, size_t len)
{
	const unsigned char *at = data;

	if (len < HOLE_MIN || *at != 0 || memcmp(at, at + 1, len - 1) != 0)
		return fd_write_all(fd, data, len);
	return lseek(fd, (off_t)len, SEEK_CUR) < 0 ? -errno : 0;
}

int fd_end_sparse(int fd)
{
	off_t at = lseek(fd, 0, SEEK_CUR);

	return at < 0 || ftruncate(fd, at) < 0 ? -errno : 0;
}

ssize_t fd_read_full(int fd, void *data, size_t len)
{
	unsigned char *p = data;
	size_t got = 0;

	while (got < len) {
		ssize_t n = read(fd, p + got, len - got);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

ssize_t fd_pread_full(int fd, void *data, size_t len, off_t offset)
{
	unsigned char *p = data;
	size_t got = 0;

	while (got < len) {
		ssize_t n = pread(fd, p + got, len - got, offset + (off_t)got);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

int fd_read_all(int fd, struct buf *b)
{
	unsigned char chunk[16384];

	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (n == 0)
			return 0;
		buf_put(b, chunk, (size_t)n);
		if (buf_failed(b))
			return -E2BIG;
	}
}

ssize_t fd_send_fds(int sock, const void *data, size_t len, const int *fds, size_t n)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)];
	} control = {0};
	struct iovec iov = {.iov_base = (void *)data, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n > FD_PASS_MAX)
		return -E2BIG;
	if (n > 0) {
		msg.msg_control = control.space;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
	}
	for (;;) {
		ssize_t sent = sendmsg(sock, &msg, MSG_NOSIGNAL);
		if (sent >= 0)
			return sent;
		if (errno != EINTR)
			return -errno;
	}
}

ssize_t fd_recv_fds(int sock, void *data, size_t len, int *ret_fds, size_t max, size_t *ret_n)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)];
	} control = {0};
	struct iovec iov = {.iov_base = data, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.space,
		.msg_controllen = sizeof(control.space)};
	ssize_t got;
	size_t stored = 0;

	do
		got = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (stored < max)
				ret_fds[stored++] = fd;
			else
				(void)fd_close(fd);
		}
	}
	*ret_n = stored;
	return got;
}
