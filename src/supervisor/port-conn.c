/* SPDX-License-Identifier: Apache-2.0 */
#include "port-conn.h"

#include "../base/cursor.h"
#include "../base/fd.h"
#include "../proto/agent.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Frames of one connection in one turn of the loop. */
#define STEP_FRAMES 4
/* Grants are made in pieces of this size. */
#define GRANT_MIN (PORT_CONN_WINDOW / 4)

static void on_poll(uv_poll_t *handle, int status, int events);

static void on_handle_closed(uv_handle_t *handle)
{
	struct port_conn *c = handle->data;

	(void)fd_close(c->fd);
	queue_release(&c->out);
	free(c);
}

static void finish(struct port_conn *c)
{
	if (c->state == PORT_CONN_CLOSED)
		return;
	c->state = PORT_CONN_CLOSED;
	(void)uv_poll_stop(&c->poll);
	c->events.closed(c->ctx, c);
	uv_close((uv_handle_t *)&c->poll, on_handle_closed);
}

void port_conn_reset(struct port_conn *c, bool tell)
{
	const struct linger now = {.l_onoff = 1, .l_linger = 0};

	if (c->state == PORT_CONN_CLOSED)
		return;
	(void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	if (tell)
		c->events.send(c->ctx, AGENT_KILL, c->stream, NULL, 0);
	finish(c);
}

/* In DRAINING the guest's side is over: KILL would be of no stream. */
static void fail(struct port_conn *c)
{
	port_conn_reset(c, c->state != PORT_CONN_DRAINING);
}

static bool wants_read(const struct port_conn *c)
{
	return c->state == PORT_CONN_OPEN && !c->in_end && c->in_window > 0 && !c->blocked;
}

static void watch(struct port_conn *c)
{
	bool reads = wants_read(c);
	/* A client that vanishes is to be noticed also while nothing may be read from it. */
	bool listens = !reads && !c->in_end && !c->half_closed;
	int events = (reads ? UV_READABLE : 0) | (listens ? UV_DISCONNECT : 0) |
		     (queue_left(&c->out) > 0 ? UV_WRITABLE : 0);

	if (c->state != PORT_CONN_CLOSED)
		(void)uv_poll_start(&c->poll, events, on_poll);
}

static void send_window(struct port_conn *c, uint32_t bytes)
{
	cleanup_buf struct buf b = {0};
	struct agent_window w = {.which = AGENT_WHICH_STDOUT, .bytes = bytes};

	buf_init(&b, 16);
	agent_window_encode(&b, &w);
	c->out_window += bytes;
	c->events.send(c->ctx, AGENT_WINDOW, c->stream, b.data, b.len);
}

/* ---- to the client ---- */

static void write_out(struct port_conn *c)
{
	size_t before = queue_left(&c->out);

	if (queue_write(&c->out, c->fd) < 0) {
		fail(c);
		return;
	}
	c->written += (uint32_t)(before - queue_left(&c->out));
	if (c->state == PORT_CONN_OPEN && !c->out_end && c->written >= GRANT_MIN) {
		send_window(c, c->written);
		c->written = 0;
	}
	if (queue_left(&c->out) > 0)
		return;
	if (c->out_end && !c->out_shut) {
		c->out_shut = true;
		(void)shutdown(c->fd, SHUT_WR);
	}
	if (c->state == PORT_CONN_DRAINING)
		finish(c);
}

static void take_data(struct port_conn *c, const struct frame *f)
{
	if (c->state != PORT_CONN_OPEN || c->out_end || f->len > c->out_window) {
		fail(c);
		return;
	}
	c->out_window -= (uint32_t)f->len;
	if (queue_bytes(&c->out, f->payload, f->len) < 0)
		fail(c);
	else
		write_out(c);
}

static void take_window(struct port_conn *c, const struct frame *f)
{
	struct agent_window w;
	struct cursor cur;

	cursor_init(&cur, f->payload, f->len);
	/* A guest that grants without end only gets what one window holds. */
	if (agent_window_decode(&cur, &w) < 0 || w.which != AGENT_WHICH_STDIN ||
		w.bytes > AGENT_WINDOW_MAX || c->in_window + w.bytes > AGENT_WINDOW_MAX)
		return;
	c->in_window += w.bytes;
}

static void take_exit(struct port_conn *c, const struct frame *f)
{
	struct agent_exit x;
	struct cursor cur;

	cursor_init(&cur, f->payload, f->len);
	if (c->state != PORT_CONN_OPEN || agent_exit_decode(&cur, &x) < 0 ||
		x.how != AGENT_END_EXITED || x.code != 0) {
		port_conn_reset(c, false);
		return;
	}
	c->state = PORT_CONN_DRAINING;
	c->out_end = true;
	write_out(c);
}

void port_conn_frame(struct port_conn *c, const struct frame *f)
{
	if (f->type == AGENT_RUN_STARTED && c->state == PORT_CONN_CONNECTING)
		c->state = PORT_CONN_OPEN;
	else if (f->type == AGENT_RUN_FAILED)
		port_conn_reset(c, false);
	else if (f->type == AGENT_STDOUT)
		take_data(c, f);
	else if (f->type == AGENT_WINDOW)
		take_window(c, f);
	else if (f->type == AGENT_RUN_EXIT)
		take_exit(c, f);
	else if (f->type == AGENT_STDOUT_EOF && c->state == PORT_CONN_OPEN) {
		c->out_end = true;
		write_out(c);
	} else
		fail(c);
	watch(c);
}

/* ---- from the client ---- */

/* False: nothing more now. */
static bool read_some(struct port_conn *c)
{
	unsigned char chunk[AGENT_DATA_MAX];
	size_t room = c->in_window < sizeof(chunk) ? c->in_window : sizeof(chunk);
	ssize_t n = recv(c->fd, chunk, room, MSG_DONTWAIT);

	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			fail(c);
		return false;
	}
	if (n == 0) {
		c->in_end = true;
		c->events.send(c->ctx, AGENT_STDIN_EOF, c->stream, NULL, 0);
		return false;
	}
	c->in_window -= (uint32_t)n;
	c->events.send(c->ctx, AGENT_STDIN, c->stream, chunk, (size_t)n);
	return true;
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
	struct port_conn *c = handle->data;

	if (status < 0) {
		fail(c);
		return;
	}
	/* It says no more, and what it said is still to be read. A reset is a status. */
	c->half_closed |= (events & UV_DISCONNECT) != 0;
	for (int i = 0; i < STEP_FRAMES && (events & UV_READABLE) && wants_read(c); i++)
		if (!read_some(c))
			break;
	if (c->state != PORT_CONN_CLOSED && (events & UV_WRITABLE))
		write_out(c);
	watch(c);
}

void port_conn_block(struct port_conn *c, bool blocked)
{
	c->blocked = blocked;
	watch(c);
}

int port_conn_new(uv_loop_t *loop, int fd, uint32_t stream, uint16_t guest_port,
	const struct port_conn_events *events, void *ctx, struct port_conn **ret)
{
	const int on = 1;
	cleanup_buf struct buf b = {0};
	struct port_conn *c = calloc(1, sizeof(*c));

	if (!c || uv_poll_init(loop, &c->poll, fd) < 0) {
		free(c);
		(void)fd_close(fd);
		return -ENOMEM;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	c->fd = fd;
	c->stream = stream;
	c->events = *events;
	c->ctx = ctx;
	c->poll.data = c;
	queue_init(&c->out, PORT_CONN_WINDOW);
	buf_init(&b, 8);
	buf_put_u16(&b, guest_port);
	c->events.send(ctx, AGENT_CONNECT, stream, b.data, b.len);
	send_window(c, PORT_CONN_WINDOW);
	*ret = c;
	return 0;
}
