/* SPDX-License-Identifier: Apache-2.0 */
#include "sink.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* A grant is a frame both ways: not for every few bytes. */
#define GRANT_LEAST (SINK_WINDOW / 4)

static int reopen(int fd)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void sink_init(struct sink *s, int fd)
{
	struct stat st;

	*s = (struct sink){.fd = fd, .own_fd = -1, .kind = SINK_PIPE, .written = SINK_WINDOW};
	buf_init(&s->data, 2 * SINK_WINDOW);
	if (fstat(fd, &st) < 0)
		return;
	if (S_ISSOCK(st.st_mode)) {
		s->kind = SINK_SOCKET;
	} else if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode)) {
		s->kind = SINK_FILE;
	} else if (S_ISFIFO(st.st_mode) || isatty(fd)) {
		s->own_fd = reopen(fd);
		s->kind = s->own_fd < 0 ? SINK_PIPE : SINK_NONBLOCK;
		s->fd = s->own_fd < 0 ? fd : s->own_fd;
	}
}

void sink_release(struct sink *s)
{
	s->own_fd = fd_close(s->own_fd);
	buf_release(&s->data);
}

size_t sink_pending(const struct sink *s)
{
	return s->data.len - s->at;
}

size_t sink_room(const struct sink *s)
{
	size_t pending = sink_pending(s);

	return pending < SINK_WINDOW ? SINK_WINDOW - pending : 0;
}

void sink_append(struct sink *s, const void *data, size_t len)
{
	/* At most a window is pending, so what was written is half the buffer when this moves it:
	 * every byte is moved once or less. */
	if (s->data.len + len > s->data.max || s->at == s->data.len) {
		buf_consume(&s->data, s->at);
		s->at = 0;
	}
	buf_put(&s->data, data, len);
}

int sink_put(struct sink *s, const void *data, size_t len)
{
	if (len > s->window)
		return -EPROTO;
	sink_append(s, data, len);
	s->window -= (uint32_t)len;
	return buf_failed(&s->data) ? -ENOMEM : 0;
}

bool sink_is_same(const struct sink *a, const struct sink *b)
{
	struct stat x, y;

	return fstat(a->fd, &x) == 0 && fstat(b->fd, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

ssize_t sink_write(struct sink *s)
{
	const unsigned char *from = s->data.data + s->at;
	size_t len = sink_pending(s);
	ssize_t n;

	if (s->kind == SINK_PIPE && len > PIPE_BUF)
		len = PIPE_BUF;
	if (s->kind == SINK_SOCKET)
		n = send(s->fd, from, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	else
		n = write(s->fd, from, len);
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	s->at += (size_t)n;
	s->written += (uint32_t)n;
	return n;
}

uint32_t sink_grant(struct sink *s)
{
	uint32_t grant = s->written;

	if (grant < GRANT_LEAST)
		return 0;
	s->written = 0;
	s->window += grant;
	return grant;
}
