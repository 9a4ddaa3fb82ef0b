/* SPDX-License-Identifier: Apache-2.0 */
#include "qmp.h"

#include "../base/buf.h"
#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/text.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct qmp {
	int fd;
	int64_t timeout_ms;
	struct buf in;
	size_t scanned;	  /* bytes of in known to hold no newline */
	json_t *events;	  /* array */
	uint64_t last_id; /* of the last command sent */
	bool waiting;	  /* a command's reply is outstanding */
	bool is_broken;
	struct err broken; /* why */
};

/* The connection cannot be used any more: the first reason is the one that stays. */
static int broken(struct qmp *q, struct err *e)
{
	if (!q->is_broken) {
		q->is_broken = true;
		q->broken = *e;
	} else {
		*e = q->broken;
	}
	return err_code(e);
}

static int wait_for(struct qmp *q, short events, int64_t deadline_ms, struct err *e)
{
	struct pollfd p = {.fd = q->fd, .events = events};

	for (;;) {
		int n = poll(&p, 1, clock_left_ms(deadline_ms));
		if (n > 0)
			return 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			(void)err_errno(e, errno, "waiting for QEMU");
		else
			(void)err_set(e, ERR_TIMEOUT, 0, "QEMU does not answer");
		return broken(q, e);
	}
}

static int gone(struct qmp *q, int errnum, struct err *e)
{
	if (errnum == 0 || errnum == ECONNRESET || errnum == EPIPE)
		(void)err_set(e, ERR_UNAVAILABLE, 0, "QEMU has ended");
	else
		(void)err_errno(e, errnum, "talking to QEMU");
	return broken(q, e);
}

/* Takes the bytes that are there. 1 something came, 0 nothing is there. */
static int receive(struct qmp *q, struct err *e)
{
	unsigned char chunk[16384];

	for (;;) {
		ssize_t n = recv(q->fd, chunk, sizeof(chunk), MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		if (n <= 0)
			return gone(q, n < 0 ? errno : 0, e);
		buf_put(&q->in, chunk, (size_t)n);
		if (!buf_failed(&q->in))
			return 1;
		(void)err_set(
			e, ERR_PROTOCOL, 0, "QEMU sent a QMP line of over %u bytes", QMP_LINE_MAX);
		return broken(q, e);
	}
}

/* The next whole line as an object: 1, or 0 when there is none yet. */
static int next_message(struct qmp *q, json_t **ret, struct err *e)
{
	if (q->scanned >= q->in.len)
		return 0;
	const unsigned char *from = q->in.data + q->scanned;
	const unsigned char *end = memchr(from, '\n', q->in.len - q->scanned);
	if (!end) {
		q->scanned = q->in.len;
		return 0;
	}
	size_t len = (size_t)(end - q->in.data);
	int r = json_parse_object(q->in.data, len, "what QEMU sent on QMP", ret, e);
	buf_consume(&q->in, len + 1);
	q->scanned = 0;
	return r < 0 ? broken(q, e) : 1;
}

static int queue_event(struct qmp *q, json_t *message, struct err *e)
{
	if (json_array_size(q->events) >= QMP_EVENTS_MAX)
		(void)err_set(e, ERR_PROTOCOL, 0, "QEMU sends too many events");
	else if (json_array_append(q->events, message) < 0)
		(void)err_errno(e, ENOMEM, "keeping an event of QEMU");
	else
		return 0;
	return broken(q, e);
}

/* Handles one message: an event is queued (0), a reply to the outstanding command is handed over
 * (1). */
static int dispatch(struct qmp *q, json_t *message, json_t **ret_reply, struct err *e)
{
	if (json_is_string(json_object_get(message, "event")))
		return queue_event(q, message, e);
	bool is_reply = json_object_get(message, "return") || json_object_get(message, "error");
	const json_t *id = json_object_get(message, "id");
	if (is_reply && q->waiting && json_is_integer(id) &&
		(uint64_t)json_integer_value(id) == q->last_id) {
		q->waiting = false;
		*ret_reply = json_incref(message);
		return 1;
	}
	(void)err_set(e, ERR_PROTOCOL, 0, "QEMU sent a QMP message that is not expected here");
	return broken(q, e);
}

/* Handles all whole lines that are there, up to a reply: 1 with a reply, else 0. */
static int drain(struct qmp *q, json_t **ret_reply, struct err *e)
{
	for (;;) {
		cleanup_json *message = NULL;
		int r = next_message(q, &message, e);
		if (r > 0)
			r = dispatch(q, message, ret_reply, e);
		else
			return r;
		if (r != 0)
			return r;
	}
}

static int read_greeting(struct qmp *q, int64_t deadline_ms, struct err *e)
{
	for (;;) {
		cleanup_json *message = NULL;
		int r = next_message(q, &message, e);
		if (r > 0 && json_is_object(json_object_get(message, "QMP")))
			return 0;
		if (r > 0) {
			(void)err_set(e, ERR_PROTOCOL, 0, "QEMU did not begin with QMP's greeting");
			return broken(q, e);
		}
		if (r < 0 || (r = wait_for(q, POLLIN, deadline_ms, e)) < 0 ||
			(r = receive(q, e)) < 0)
			return r;
	}
}

int qmp_open(int fd, int64_t timeout_ms, struct qmp **ret, struct err *e)
{
	cleanup_qmp struct qmp *q = calloc(1, sizeof(*q));
	int r;

	if (!q || !(q->events = json_array())) {
		(void)fd_close(fd);
		return err_errno(e, ENOMEM, "talking to QEMU");
	}
	q->fd = fd;
	q->timeout_ms = timeout_ms;
	buf_init(&q->in, QMP_LINE_MAX);
	if ((r = fd_set_nonblock(fd, true)) < 0)
		return err_errno(e, -r, "talking to QEMU");
	if ((r = read_greeting(q, clock_mono_ms() + timeout_ms, e)) < 0 ||
		(r = qmp_call(q, "qmp_capabilities", NULL, QMP_FD_NONE, NULL, e)) < 0)
		return r;
	*ret = q;
	q = NULL;
	return 0;
}

void qmp_free(struct qmp *q)
{
	if (!q)
		return;
	(void)fd_close(q->fd);
	buf_release(&q->in);
	json_decref(q->events);
	free(q);
}

void qmp_freep(struct qmp **q)
{
	qmp_free(*q);
	*q = NULL;
}

int qmp_fd(const struct qmp *q)
{
	return q->fd;
}

static int send_all(struct qmp *q, struct buf *b, int fd, int64_t deadline_ms, struct err *e)
{
	size_t at = 0;

	while (at < b->len) {
		bool pass = at == 0 && fd != QMP_FD_NONE;
		ssize_t n = fd_send_fds(q->fd, b->data + at, b->len - at, &fd, pass ? 1 : 0);
		if (n >= 0) {
			at += (size_t)n;
			continue;
		}
		if (n != -EAGAIN)
			return gone(q, (int)-n, e);
		int r = wait_for(q, POLLOUT, deadline_ms, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int send_command(struct qmp *q, const char *command, json_t *args, int fd,
	int64_t deadline_ms, struct err *e)
{
	cleanup_buf struct buf b = {0};
	cleanup_json *message = json_pack("{s:s, s:I, s:O*}", "execute", command, "id",
		(json_int_t)(q->last_id + 1), "arguments", args);

	buf_init(&b, QMP_LINE_MAX);
	if (!message)
		return err_errno(e, ENOMEM, "talking to QEMU");
	json_put_canonical(&b, message);
	buf_put(&b, "\n", 1);
	if (buf_failed(&b))
		return err_set(e, ERR_LIMIT, 0, "the QMP command %s is too long", command);
	q->last_id++;
	q->waiting = true;
	return send_all(q, &b, fd, deadline_ms, e);
}

/* QEMU's own words, made fit for one line, with the kinds that callers act on. */
static int refused(const char *command, const json_t *error, struct err *e)
{
	const char *desc = json_string_value(json_object_get(error, "desc"));
	char text[ERR_WHAT_MAX];

	text_escape(desc ? desc : "no reason given", text, sizeof(text));
	enum err_kind kind = strstr(text, strerror(ENOSPC)) ? ERR_NO_SPACE : ERR_IO;
	return err_set(e, kind, 0, "QEMU refused %s: %.300s", command, text);
}

static int read_reply(struct qmp *q, int64_t deadline_ms, json_t **ret, struct err *e)
{
	for (;;) {
		int r = drain(q, ret, e);
		if (r != 0)
			return r < 0 ? r : 0;
		if ((r = wait_for(q, POLLIN, deadline_ms, e)) < 0 || (r = receive(q, e)) < 0)
			return r;
	}
}

int qmp_call(
	struct qmp *q, const char *command, json_t *args_taken, int fd, json_t **ret, struct err *e)
{
	cleanup_json *args = args_taken;
	cleanup_json *reply = NULL;
	int64_t deadline_ms = clock_mono_ms() + q->timeout_ms;
	int r;

	if (q->is_broken)
		return broken(q, e);
	if ((r = send_command(q, command, args, fd, deadline_ms, e)) < 0 ||
		(r = read_reply(q, deadline_ms, &reply, e)) < 0)
		return err_wrap(e, "%s", command);
	const json_t *error = json_object_get(reply, "error");
	if (error)
		return refused(command, error, e);
	if (ret)
		*ret = json_incref(json_object_get(reply, "return"));
	return 0;
}

static json_t *take_event(struct qmp *q, bool (*match)(const json_t *event, void *ctx), void *ctx)
{
	size_t i;
	json_t *event;

	json_array_foreach (q->events, i, event) {
		if (match && !match(event, ctx))
			continue;
		json_incref(event);
		(void)json_array_remove(q->events, i);
		return event;
	}
	return NULL;
}

int qmp_wait(struct qmp *q, bool (*match)(const json_t *event, void *ctx), void *ctx,
	int64_t timeout_ms, json_t **ret, struct err *e)
{
	int64_t deadline_ms = clock_mono_ms() + timeout_ms;

	for (;;) {
		int r = qmp_pump(q, e);
		json_t *event = take_event(q, match, ctx);
		if (event) {
			*ret = event;
			return 0;
		}
		if (r < 0 || (r = wait_for(q, POLLIN, deadline_ms, e)) < 0)
			return r;
	}
}

int qmp_pump(struct qmp *q, struct err *e)
{
	json_t *reply = NULL;
	int got = 0, r;

	if (q->is_broken)
		return broken(q, e);
	do {
		/* No command is outstanding, so drain() finds no reply. */
		if ((r = drain(q, &reply, e)) < 0)
			return r;
		got = receive(q, e);
	} while (got > 0);
	return got;
}

json_t *qmp_event(struct qmp *q)
{
	return take_event(q, NULL, NULL);
}

const char *qmp_event_name(const json_t *event)
{
	const char *name = json_string_value(json_object_get(event, "event"));

	return name ? name : "";
}
