/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: a socket on one side, windows and frames on the other. */
#include "net.h"

#include "../base/clock.h"
#include "../base/fd.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A grant is worth a frame when so much was written, or when all was. */
#define GRANT_MIN (16u * 1024)
/* Frames of data that one connection may send in a round. */
#define FRAMES_A_STEP 4

static void release(struct net *n, struct net_stream *s)
{
	loop_unwatch(n->loop, &s->socket);
	buf_release(&s->in);
	*s = (struct net_stream){.socket.fd = -1, .deadline_ms = -1};
}

void net_stream_reset(struct net *n, struct net_stream *s)
{
	struct linger reset = {.l_onoff = 1, .l_linger = 0};

	if (s->socket.fd >= 0)
		(void)setsockopt(s->socket.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	release(n, s);
}

static void send_exit(struct net *n, uint32_t stream, enum agent_end how)
{
	struct agent_exit m = {.how = how};
	cleanup_buf struct buf b = {0};

	buf_init(&b, 64);
	agent_exit_encode(&b, &m);
	mux_send_buf(&n->mux, AGENT_RUN_EXIT, stream, &b);
}

static void end_reset(struct net *n, struct net_stream *s)
{
	send_exit(n, s->stream, AGENT_END_KILLED);
	net_stream_reset(n, s);
}

static void fail(struct net *n, struct net_stream *s, int errnum)
{
	struct agent_reply m = {.status = (uint32_t)errnum, .fail = AGENT_FAIL_SETUP};

	(void)snprintf(m.text, sizeof(m.text), "nothing answers on port %u in the guest: %s",
		s->port, strerror(errnum));
	mux_reply(&n->mux, AGENT_RUN_FAILED, s->stream, &m);
	release(n, s);
}

static void grant(struct net *n, struct net_stream *s, uint32_t bytes)
{
	struct agent_window m = {.which = AGENT_WHICH_STDIN, .bytes = bytes};
	cleanup_buf struct buf b = {0};

	buf_init(&b, 64);
	agent_window_encode(&b, &m);
	mux_send_buf(&n->mux, AGENT_WINDOW, s->stream, &b);
	s->granted += bytes;
}

/* 0, or a negative errno at once. */
static int dial(struct net *n, struct net_stream *s)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET,
		.sin_port = htons(s->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
		.sin6_port = htons(s->port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	const struct sockaddr *to = s->v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4;
	int on = 1;
	struct err e;
	cleanup_fd int fd =
		socket(s->v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(fd, to, s->v6 ? sizeof(v6) : sizeof(v4)) < 0 && errno != EINPROGRESS)
		return -errno;
	int r = loop_watch(n->loop, &s->socket, fd_take(&fd), WATCH_READ | WATCH_WRITE, &e);
	/* Until the loop says that the connection is made. */
	s->socket.writable = s->socket.readable = false;
	return r < 0 ? r : 0;
}

static void dial_next(struct net *n, struct net_stream *s, int r)
{
	if (r == -ECONNREFUSED && !s->v6) {
		loop_unwatch(n->loop, &s->socket);
		s->v6 = true;
		r = dial(n, s);
		/* A guest without IPv6: the first answer was the one that counts. */
		if (r == -EAFNOSUPPORT || r == -EADDRNOTAVAIL)
			r = -ECONNREFUSED;
	}
	if (r < 0)
		fail(n, s, -r);
}

void net_stream_start(struct net *n, struct net_stream *s, uint32_t stream, uint16_t port)
{
	*s = (struct net_stream){.state = NET_CONNECTING,
		.stream = stream,
		.port = port,
		.socket.fd = -1,
		.deadline_ms = clock_mono_ms() + NET_CONNECT_MS};
	buf_init(&s->in, NET_STDIN_WINDOW);
	dial_next(n, s, dial(n, s));
}

static int step_connect(struct net *n, struct net_stream *s)
{
	int errnum = 0;
	socklen_t len = sizeof(errnum);

	if (clock_left_ms(s->deadline_ms) == 0) {
		fail(n, s, ETIMEDOUT);
		return 1;
	}
	if (!s->socket.writable)
		return 0;
	if (getsockopt(s->socket.fd, SOL_SOCKET, SO_ERROR, &errnum, &len) < 0)
		errnum = errno;
	if (errnum != 0) {
		dial_next(n, s, -errnum);
		return 1;
	}
	s->state = NET_OPEN;
	s->deadline_ms = -1;
	mux_send(&n->mux, AGENT_RUN_STARTED, s->stream, NULL, 0);
	grant(n, s, NET_STDIN_WINDOW);
	return 1;
}

static void on_data(struct net *n, struct net_stream *s, const struct frame *f)
{
	if (s->in_eof || f->len > s->granted)
		return end_reset(n, s);
	s->granted -= (uint32_t)f->len;
	buf_put(&s->in, f->payload, f->len);
	if (buf_failed(&s->in))
		end_reset(n, s);
}

static void on_window(struct net_stream *s, const struct frame *f)
{
	struct agent_window m;
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	if (agent_window_decode(&c, &m) == 0 && m.which == AGENT_WHICH_STDOUT)
		s->window = m.bytes > AGENT_WINDOW_MAX - s->window ? AGENT_WINDOW_MAX
								   : s->window + m.bytes;
}

void net_stream_frame(struct net *n, struct net_stream *s, const struct frame *f)
{
	switch (f->type) {
	case AGENT_STDIN:
		return on_data(n, s, f);
	case AGENT_STDIN_EOF:
		s->in_eof = true;
		return;
	case AGENT_WINDOW:
		return on_window(s, f);
	case AGENT_KILL:
		return end_reset(n, s);
	default:
		return;
	}
}

/* To the server. 1: progress; 0: idle; <0: the connection is broken. */
static int step_in(struct net *n, struct net_stream *s)
{
	int progress = 0;

	while (s->socket.writable && s->in.len > 0) {
		ssize_t k = send(s->socket.fd, s->in.data, s->in.len, MSG_NOSIGNAL);

		if (k > 0) {
			buf_consume(&s->in, (size_t)k);
			s->consumed += (uint32_t)k;
			progress = 1;
		} else if (k < 0 && errno == EAGAIN) {
			s->socket.writable = false;
		} else if (k < 0 && errno != EINTR) {
			return -errno;
		}
	}
	if (!s->in_eof && (s->consumed >= GRANT_MIN || (s->consumed > 0 && s->in.len == 0))) {
		grant(n, s, s->consumed);
		s->consumed = 0;
	}
	if (s->in_eof && s->in.len == 0 && !s->shut) {
		s->shut = true;
		progress = 1;
		if (shutdown(s->socket.fd, SHUT_WR) < 0 && errno != ENOTCONN)
			return -errno;
	}
	return progress;
}

/* From the server, straight into the frame. */
static int step_out(struct net *n, struct net_stream *s)
{
	size_t max = s->window < AGENT_DATA_MAX ? s->window : AGENT_DATA_MAX;

	/* The end needs no window, so it is looked for without one too. */
	if (s->out_eof || !s->socket.readable || !mux_has_room(&n->mux))
		return 0;
	if (max == 0) {
		char byte;
		ssize_t k = recv(s->socket.fd, &byte, 1, MSG_PEEK);

		if (k > 0)
			return 0;
		if (k < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (k < 0) {
			s->socket.readable = errno == EINTR;
			return 0;
		}
	}
	void *at = mux_begin(&n->mux, max);
	ssize_t k = at ? recv(s->socket.fd, at, max, 0) : 0;
	if (at && k > 0) {
		mux_end(&n->mux, max, AGENT_STDOUT, s->stream, (size_t)k);
		s->window -= (uint32_t)k;
		return 1;
	}
	int errnum = k < 0 ? errno : 0;
	if (at)
		mux_cancel(&n->mux, max);
	if (errnum == EAGAIN)
		s->socket.readable = false;
	if (errnum == EAGAIN || errnum == EINTR)
		return errnum == EINTR;
	if (errnum)
		return -errnum;
	s->out_eof = true;
	mux_send(&n->mux, AGENT_STDOUT_EOF, s->stream, NULL, 0);
	return 1;
}

int net_stream_step(struct net *n, struct net_stream *s)
{
	int progress = 0;

	if (s->state == NET_CONNECTING)
		return step_connect(n, s);
	int r = step_in(n, s);
	for (int i = 0; r >= 0 && i < FRAMES_A_STEP; i++) {
		progress |= r;
		r = step_out(n, s);
		if (r == 0)
			break;
	}
	if (r < 0) {
		end_reset(n, s);
		return 1;
	}
	if (s->out_eof && s->shut) {
		send_exit(n, s->stream, AGENT_END_EXITED);
		release(n, s);
		return 1;
	}
	return progress | r;
}
