/* SPDX-License-Identifier: Apache-2.0 */
#include "conn.h"

#include "queue.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/log.h"
#include "../base/sock.h"
#include "../proto/client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#define READ_CHUNK (64u * 1024)
#define FLUSH_MS 1000

/* OPEN: no request yet. BUSY: its request is handled. FINISHING: RESULT is queued, input is
 * ignored. CLOSED: waits for libuv to let go of the handle. */
enum conn_state { CONN_OPEN, CONN_BUSY, CONN_FINISHING, CONN_CLOSED };

struct conn {
	enum conn_state state;
	uv_poll_t poll;
	int fd;
	pid_t pid;
	uid_t uid;
	struct buf in;
	struct queue out;
	struct conn_events events;
	void *ctx;
	void *user;
};

static void on_closed(uv_handle_t *handle)
{
	struct conn *c = handle->data;

	(void)fd_close(c->fd);
	buf_release(&c->in);
	queue_release(&c->out);
	free(c);
}

static void shut(struct conn *c)
{
	if (c->state == CONN_CLOSED)
		return;
	bool tell = c->state != CONN_FINISHING;
	c->state = CONN_CLOSED;
	if (tell)
		c->events.gone(c->ctx, c);
	(void)uv_poll_stop(&c->poll);
	uv_close((uv_handle_t *)&c->poll, on_closed);
}

static void on_poll(uv_poll_t *handle, int status, int events);

static void watch(struct conn *c)
{
	if (c->state == CONN_CLOSED)
		return;
	int events = UV_READABLE | UV_DISCONNECT | (queue_left(&c->out) > 0 ? UV_WRITABLE : 0);
	(void)uv_poll_start(&c->poll, events, on_poll);
}

static void handle_request(struct conn *c, const struct frame *f)
{
	json_t *request = NULL;
	struct err e;

	if (f->type != CLIENT_REQUEST) {
		(void)err_set(&e, ERR_PROTOCOL, 0, "the first frame must be a request");
		conn_finish_error(c, &e);
		return;
	}
	c->state = CONN_BUSY;
	if (json_parse_object(f->payload, f->len, "the request", &request, &e) < 0) {
		conn_finish_error(c, &e);
		return;
	}
	c->events.request(c->ctx, c, request);
}

static int parse_input(struct conn *c)
{
	struct frame f;
	size_t at = 0;
	int n = 0;

	while (c->state <= CONN_BUSY &&
		(n = frame_parse(c->in.data + at, c->in.len - at, &f)) > 0) {
		at += (size_t)n;
		if (c->state == CONN_OPEN)
			handle_request(c, &f);
		else
			c->events.frame(c->ctx, c, &f);
	}
	if (c->state >= CONN_FINISHING) {
		buf_reset(&c->in);
		return 0;
	}
	if (n < 0)
		return n;
	buf_consume(&c->in, at);
	if (c->in.len == 0)
		buf_release(&c->in);
	return 0;
}

static int read_input(struct conn *c)
{
	size_t before = c->in.len;
	void *at = buf_extend(&c->in, READ_CHUNK);

	if (!at)
		return -EPROTO;
	ssize_t n = recv(c->fd, at, READ_CHUNK, MSG_DONTWAIT);
	int saved = errno;
	c->in.len = before + (n > 0 ? (size_t)n : 0);
	if (n < 0)
		return saved == EAGAIN || saved == EINTR ? 0 : -saved;
	if (n == 0)
		return -EPIPE;
	return parse_input(c);
}

static int write_output(struct conn *c)
{
	int r = queue_write(&c->out, c->fd);

	if (r == 0 && c->state == CONN_FINISHING && queue_left(&c->out) == 0)
		return -EPIPE;
	return r;
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
	struct conn *c = handle->data;
	int r = status;

	if (r == 0 && (events & (UV_READABLE | UV_DISCONNECT)))
		r = read_input(c);
	if (r == 0 && c->state != CONN_CLOSED)
		r = write_output(c);
	if (r < 0)
		shut(c);
	else
		watch(c);
}

int conn_new(uv_loop_t *loop, int fd, const struct conn_events *events, void *ctx,
	struct conn **ret, struct err *e)
{
	struct conn *c = calloc(1, sizeof(*c));
	int r = c ? fd_set_nonblock(fd, true) : -ENOMEM;

	if (r == 0)
		r = uv_poll_init(loop, &c->poll, fd);
	if (r < 0) {
		free(c);
		(void)fd_close(fd);
		return err_errno(e, -r, "cannot serve a client");
	}
	if (sock_peer(fd, &c->pid, &c->uid) < 0)
		c->pid = 0;
	c->poll.data = c;
	c->fd = fd;
	c->events = *events;
	c->ctx = ctx;
	buf_init(&c->in, READ_CHUNK + FRAME_HEADER_SIZE + FRAME_PAYLOAD_MAX);
	queue_init(&c->out, CONN_OUT_MAX);
	watch(c);
	*ret = c;
	return 0;
}

pid_t conn_pid(const struct conn *c)
{
	return c->pid;
}

uid_t conn_uid(const struct conn *c)
{
	return c->uid;
}

void conn_set_user(struct conn *c, void *user)
{
	c->user = user;
}

void *conn_user(const struct conn *c)
{
	return c->user;
}

static void queued(struct conn *c, int r)
{
	if (r == 0) {
		watch(c);
		return;
	}
	log_warn("a client of process %d lets more than %u MB wait: dropped", (int)c->pid,
		CONN_OUT_MAX >> 20);
	shut(c);
}

void conn_send(struct conn *c, uint16_t type, const void *payload, size_t len)
{
	if (c->state != CONN_CLOSED)
		queued(c, queue_frame(&c->out, type, 0, 0, payload, len));
}

void conn_data(struct conn *c, uint16_t type, const void *payload, size_t len)
{
	if (c->state != CONN_CLOSED)
		queued(c, queue_data(&c->out, type, 0, 0, payload, len));
}

static void send_json(struct conn *c, uint16_t type, const json_t *j)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, CLIENT_JSON_MAX);
	json_put_canonical(&b, j);
	if (buf_failed(&b)) {
		static const char large[] = "{\"ok\":false,\"error\":{\"kind\":\"limit\",\"what\":"
					    "\"the answer is too large\"}}";
		conn_send(c, type, large, sizeof(large) - 1);
		return;
	}
	conn_send(c, type, b.data, b.len);
}

void conn_notice(struct conn *c, const char *text)
{
	cleanup_json *j = json_pack("{s:s}", "text", text);

	send_json(c, CLIENT_NOTICE, j);
}

void conn_finish(struct conn *c, json_t *result)
{
	if (c->state < CONN_FINISHING) {
		send_json(c, CLIENT_RESULT, result);
		if (c->state != CONN_CLOSED)
			c->state = CONN_FINISHING;
	}
	json_decref(result);
}

void conn_finish_error(struct conn *c, const struct err *why)
{
	conn_finish(c, json_pack("{s:b, s:o}", "ok", 0, "error", client_error_encode(why)));
}

void conn_flush_now(struct conn *c)
{
	int64_t deadline = clock_mono_ms() + FLUSH_MS;

	while (c->state != CONN_CLOSED && queue_left(&c->out) > 0) {
		struct pollfd p = {.fd = c->fd, .events = POLLOUT};
		if (queue_write(&c->out, c->fd) < 0 || queue_left(&c->out) == 0)
			break;
		if (poll(&p, 1, clock_left_ms(deadline)) == 0)
			break;
	}
}
