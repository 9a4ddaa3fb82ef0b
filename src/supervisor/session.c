/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include "agent-view.h"

#include "../base/clock.h"
#include "../base/log.h"
#include "../proto/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What a run whose client is gone may go on writing before it has to wait for its end. */
#define DROP_WINDOW (256u * 1024)
/* A window that the agent grants is passed on in parts of at least this, so that one that grants
 * single bytes does not fill the client's queue. */
#define TELL_MIN 4096u

static struct session **bucket_of(struct supervisor *s, uint32_t stream)
{
	return &s->sessions[stream % SESSION_BUCKETS];
}

static struct session *find(struct supervisor *s, uint32_t stream)
{
	struct session *x = *bucket_of(s, stream);

	while (x && x->stream != stream)
		x = x->next;
	return x;
}

void session_init(struct session *x, struct op *op, const struct session_kind *kind)
{
	*x = (struct session){
		.kind = kind, .op = op, .carries = kind->carries, .begun_us = clock_mono_us()};
}

void session_bind(struct op *op)
{
	struct sandbox_row row = {0};
	struct checkpoint_row checkpoint = {0};
	struct err e;

	if (catalog_sandbox_get(op->s->catalog, op->s->row.id, &row, &e) == 0 && *row.checkpoint &&
		catalog_checkpoint_find(
			op->s->catalog, op->s->row.id, row.checkpoint, &checkpoint, &e) == 0)
		(void)json_object_set_new(op->bound, "checkpoint", json_string(checkpoint.hash));
	checkpoint_row_release(&checkpoint);
	sandbox_row_release(&row);
}

void session_begin(struct session *x)
{
	x->state = SESSION_PREPARING;
}

void session_reopen(struct session *x)
{
	session_release(x);
	x->stream = 0;
	x->state = SESSION_PREPARING;
}

void session_release(struct session *x)
{
	if (x->stream == 0)
		return;
	for (struct session **at = bucket_of(x->op->s, x->stream); *at; at = &(*at)->next)
		if (*at == x) {
			*at = x->next;
			return;
		}
}

/* During a rewind the former machine may be gone while its sessions are not ended yet. */
static void tell_agent(struct session *x, uint16_t type, const void *payload, size_t len)
{
	struct machine *m = x->op->s->machine;

	if (m)
		channel_send(machine_channel(m), type, x->stream, payload, len);
}

static void send_window(struct session *x, uint32_t which, uint64_t bytes)
{
	struct agent_window w = {.which = which, .bytes = (uint32_t)bytes};
	cleanup_buf struct buf b = {0};

	if (bytes == 0)
		return;
	buf_init(&b, 16);
	agent_window_encode(&b, &w);
	tell_agent(x, AGENT_WINDOW, b.data, b.len);
}

static void send_size(struct session *x)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, 16);
	agent_size_encode(&b, &x->size);
	tell_agent(x, AGENT_RESIZE, b.data, b.len);
}

/* What the client said before the session was open. */
static void send_early(struct session *x)
{
	for (uint32_t which = AGENT_WHICH_STDOUT; which <= AGENT_WHICH_STDERR; which++)
		send_window(x, which, x->window[which]);
	if (x->resized)
		send_size(x);
	if (x->stdin_eof)
		tell_agent(x, AGENT_STDIN_EOF, NULL, 0);
	if (x->detach)
		tell_agent(x, AGENT_DETACH, NULL, 0);
}

int session_open(struct session *x, const struct buf *payload, struct err *e)
{
	struct supervisor *s = x->op->s;

	if (x->client_gone)
		return err_set(e, ERR_CANCELLED, 0, "ended before it began");
	if (buf_failed(payload))
		return err_set(e, ERR_LIMIT, 0, "command and environment are too long");
	x->stream = channel_number(machine_channel(s->machine));
	x->next = *bucket_of(s, x->stream);
	*bucket_of(s, x->stream) = x;
	x->state = SESSION_OPEN;
	tell_agent(x, x->kind->opens, payload->data, payload->len);
	send_early(x);
	machine_kick(s->machine);
	log_debug("%s: sent %lld us after the request", x->op->kind->name,
		(long long)(clock_mono_us() - x->begun_us));
	return 0;
}

/* ---- the client ---- */

static void drop_output(struct session *x)
{
	for (uint32_t which = AGENT_WHICH_STDOUT; which <= AGENT_WHICH_STDERR; which++) {
		if (!(x->carries & 1u << which) || x->window[which] >= DROP_WINDOW)
			continue;
		send_window(x, which, DROP_WINDOW - x->window[which]);
		x->window[which] = DROP_WINDOW;
	}
}

/* A client with --timeout also ends when the guest did not keep it. */
static void ended_with_client(const struct session *x, const struct agent_exit *end, struct err *e)
{
	if (x->timed_out || (end && end->how == AGENT_END_TIMEOUT))
		(void)err_set(e, ERR_TIMEOUT, 0, "timed out: ended with its client");
	else
		(void)err_set(e, ERR_CANCELLED, 0, "ended with its client");
}

/* Ends it with its client: what it started is waited for, anything else is over at once. */
static void leave(struct session *x)
{
	struct supervisor *s = x->op->s;
	struct err e;

	if (x->state != SESSION_OPEN || x->keeps_on)
		return;
	x->state = SESSION_ENDING;
	tell_agent(x, x->kind->leave, NULL, 0);
	if (x->kind->tree)
		drop_output(x);
	if (s->machine)
		machine_kick(s->machine);
	if (x->kind->tree)
		return;
	ended_with_client(x, NULL, &e);
	op_fail(x->op, &e);
}

static void cancelled(struct session *x)
{
	struct err e;

	(void)err_set(&e, ERR_CANCELLED, 0, "ended before it began");
	op_fail(x->op, &e);
}

/* The client broke the protocol. */
static void refuse(struct session *x, const char *what)
{
	struct conn *c = x->op->conn;
	struct err e;

	(void)err_set(&e, ERR_PROTOCOL, 0, "the client sent %s", what);
	if (x->state != SESSION_OPEN) {
		op_fail(x->op, &e);
		return;
	}
	/* What it started is killed first; the operation ends with it. */
	conn_set_user(c, NULL);
	x->op->conn = NULL;
	x->client_gone = true;
	conn_finish_error(c, &e);
	leave(x);
}

static void client_window(struct session *x, const struct frame *f)
{
	struct agent_window w;
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	if (agent_window_decode(&c, &w) < 0 || w.which == AGENT_WHICH_STDIN ||
		x->window[w.which] + w.bytes > AGENT_WINDOW_MAX) {
		refuse(x, "a window that it may not grant");
		return;
	}
	if (!(x->carries & 1u << w.which))
		return;
	x->window[w.which] += w.bytes;
	if (x->state == SESSION_OPEN)
		send_window(x, w.which, w.bytes);
}

/* Passes on what the agent granted, when it is worth a frame or the client has nothing left. */
static void tell_window(struct session *x)
{
	uint64_t *window = &x->window[AGENT_WHICH_STDIN];
	struct agent_window w = {.which = AGENT_WHICH_STDIN, .bytes = (uint32_t)x->untold};
	cleanup_buf struct buf b = {0};

	if (x->untold == 0 || (x->untold < TELL_MIN && x->untold < *window) || !x->op->conn)
		return;
	x->untold = 0;
	buf_init(&b, 16);
	agent_window_encode(&b, &w);
	conn_send(x->op->conn, CLIENT_WINDOW, b.data, b.len);
}

static void client_stdin(struct session *x, const struct frame *f)
{
	uint64_t *window = &x->window[AGENT_WHICH_STDIN];

	if (f->len > *window - x->untold) {
		refuse(x, "more input than it was granted");
		return;
	}
	*window -= f->len;
	tell_agent(x, AGENT_STDIN, f->payload, f->len);
	tell_window(x);
}

static void client_resize(struct session *x, const struct frame *f)
{
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	if (!x->kind->signals || agent_size_decode(&c, &x->size) < 0) {
		refuse(x, "a size that does not belong here");
		return;
	}
	if (x->state == SESSION_OPEN)
		send_size(x);
	else
		x->resized = true;
}

static void client_signal(struct session *x, const struct frame *f)
{
	struct cursor c;
	uint32_t number;

	cursor_init(&c, f->payload, f->len);
	number = cursor_u32(&c);
	if (!x->kind->signals || !cursor_done(&c) || number < 1 || number > 64)
		refuse(x, "a signal that does not belong here");
	else if (x->state == SESSION_OPEN)
		tell_agent(x, AGENT_SIGNAL, f->payload, f->len);
	else if (x->state == SESSION_WAITING)
		cancelled(x);
	else
		x->client_gone = true; /* session_open() is not far */
}

static void client_detach(struct session *x)
{
	if (x->state == SESSION_OPEN)
		tell_agent(x, AGENT_DETACH, NULL, 0);
	else
		x->detach = true;
}

void session_client_frame(struct op *op, const struct frame *f)
{
	struct supervisor *s = op->s;
	struct session *x = op->state;

	switch (f->type) {
	case CLIENT_WINDOW:
		client_window(x, f);
		break;
	case CLIENT_STDIN:
		client_stdin(x, f);
		break;
	case CLIENT_STDIN_EOF:
		if (x->state == SESSION_OPEN)
			tell_agent(x, AGENT_STDIN_EOF, NULL, 0);
		x->stdin_eof = true;
		break;
	case CLIENT_SIGNAL:
		client_signal(x, f);
		break;
	case CLIENT_RESIZE:
		client_resize(x, f);
		break;
	case CLIENT_DETACH:
		client_detach(x);
		break;
	default:
		refuse(x, "a frame that does not belong to a session");
		break;
	}
	if (s->machine)
		machine_kick(s->machine);
}

void session_client_gone(struct op *op)
{
	struct session *x = op->state;
	json_int_t timeout_ms = json_integer_value(json_object_get(op->request, "timeout_ms"));

	x->client_gone = true;
	x->timed_out = timeout_ms > 0 && (clock_mono_us() - x->begun_us) / 1000 >= timeout_ms;
	if (x->state == SESSION_WAITING)
		cancelled(x);
	else
		leave(x);
}

/* ---- the agent ---- */

static void broke_protocol(struct session *x, const char *what)
{
	struct err e;

	(void)err_set(&e, ERR_PROTOCOL, 0, "the guest sent %s", what);
	op_fail(x->op, &e);
}

static void agent_data(struct session *x, const struct frame *f)
{
	uint32_t which = f->type == AGENT_STDOUT ? AGENT_WHICH_STDOUT : AGENT_WHICH_STDERR;

	if (f->len == 0)
		return;
	if (f->len > x->window[which]) {
		broke_protocol(x, "more output than it was granted");
		return;
	}
	x->window[which] -= f->len;
	if (x->state == SESSION_ENDING)
		drop_output(x);
	else if (x->op->conn)
		conn_data(x->op->conn, f->type == AGENT_STDOUT ? CLIENT_STDOUT : CLIENT_STDERR,
			f->payload, f->len);
}

static void agent_window(struct session *x, const struct frame *f)
{
	struct agent_window w;
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	/* A guest that grants without end only gets what one window holds. */
	if (agent_window_decode(&c, &w) < 0 || w.which != AGENT_WHICH_STDIN ||
		!(x->carries & SESSION_STDIN) || x->window[w.which] + w.bytes > AGENT_WINDOW_MAX)
		return;
	x->window[w.which] += w.bytes;
	x->untold += w.bytes;
	tell_window(x);
}

static void agent_container(struct session *x, const struct frame *f)
{
	struct agent_container m;
	struct cursor c;
	struct err e;

	cursor_init(&c, f->payload, f->len);
	if (!x->kind->container || agent_container_decode(&c, &m) < 0)
		broke_protocol(x, "a container that it was not asked for");
	else if (x->kind->container(x, &m, &e) < 0)
		op_fail(x->op, &e);
}

static void agent_failed(struct session *x, const struct frame *f)
{
	struct agent_reply reply;
	struct cursor c;
	struct err e;

	cursor_init(&c, f->payload, f->len);
	if (agent_reply_decode(&c, &reply) < 0) {
		broke_protocol(x, "an answer that cannot be read");
		return;
	}
	if (x->state == SESSION_OPEN && !x->started && x->kind->failed &&
		x->kind->failed(x, &reply))
		return;
	agent_error(&reply, x->kind->names_container, x->op->s->row.name, &e);
	op_fail(x->op, &e);
}

static void agent_exit(struct session *x, const struct frame *f)
{
	struct op *op = x->op;
	struct agent_exit end;
	struct cursor c;
	struct err e;

	cursor_init(&c, f->payload, f->len);
	if (agent_exit_decode(&c, &end) < 0) {
		broke_protocol(x, "an exit report that cannot be read");
		return;
	}
	if (x->client_gone && !x->keeps_on) {
		ended_with_client(x, &end, &e);
		op_fail(op, &e);
		return;
	}
	if (end.how == AGENT_END_DETACHED)
		op->s->ends_left++;
	json_t *members = json_object();
	agent_end_put(&end, members);
	agent_end_put(&end, op->detail);
	(void)json_object_set_new(
		op->detail, "took_ms", json_integer((clock_mono_us() - x->begun_us) / 1000));
	if (x->kind->result)
		x->kind->result(x, members);
	op_succeed(op, members);
}

void op_session_frame(struct supervisor *s, const struct frame *f)
{
	struct session *x;

	if (f->type == AGENT_ENDED) {
		op_container_ended(s, f);
		return;
	}
	x = find(s, f->stream);
	if (!x)
		return;
	if (f->type == AGENT_RUN_STARTED) {
		bool first = !x->started;
		x->started = true;
		/* A client whose queue is full goes, and x perhaps with it. */
		if (first && x->op->conn)
			conn_send(x->op->conn, CLIENT_STARTED, NULL, 0);
	} else if (f->type == AGENT_STDOUT || f->type == AGENT_STDERR) {
		agent_data(x, f);
	} else if (f->type == AGENT_WINDOW) {
		agent_window(x, f);
	} else if (f->type == AGENT_CONTAINER) {
		agent_container(x, f);
	} else if (f->type == AGENT_RUN_FAILED) {
		agent_failed(x, f);
	} else if (f->type == AGENT_RUN_EXIT) {
		agent_exit(x, f);
	}
}
