/* SPDX-License-Identifier: Apache-2.0 */
#include "run-client.h"

#include "../base/log.h"
#include "run-internal.h"
#include "run-start.h"

#include <errno.h>
#include <string.h>

struct run *runs_find(struct runs *rs, uint32_t stream)
{
	for (size_t i = 0; i < rs->active_len; i++) {
		struct run *r = rs->active[i];

		if (r->client.present && r->client.stream == stream)
			return r;
	}
	return NULL;
}

void run_client_end(struct runs *rs, struct run *r, const struct agent_exit *exit)
{
	cleanup_buf struct buf b = {0};

	if (!r->client.present)
		return;
	run_send_eof(rs, r, 0);
	run_send_eof(rs, r, 1);
	buf_init(&b, 64);
	agent_exit_encode(&b, exit);
	mux_send_buf(rs->mux, AGENT_RUN_EXIT, r->client.stream, &b);
	r->client.present = false;
}

/* What is read from now on goes into the log. */
static void keep(struct runs *rs, struct run *r)
{
	struct err e;

	if (container_keep(rs->containers, r->container, &e) < 0)
		log_warn("container %s is kept without a log: %s", r->container->is.id, e.what);
}

void run_detach(struct runs *rs, struct run *r)
{
	static const struct agent_exit detached = {.how = AGENT_END_DETACHED};

	if (r->state == RUN_STARTING || r->state == RUN_WAITING) {
		r->pending_detach = true;
		return;
	}
	if (r->state != RUN_RUNNING && r->state != RUN_DRAINING)
		return;
	r->pending_detach = false;
	if (r->kind == RUN_COPY) {
		run_force(r, AGENT_END_KILLED);
		return;
	}
	if (r->kind == RUN_PROGRAM && !r->client.attached)
		keep(rs, r);
	/* At a terminal that would end a shell, which should go on. */
	if (r->kind == RUN_EXEC && !(r->flags & AGENT_TTY))
		r->in.eof = true;
	run_client_end(rs, r, &detached);
}

static void on_stdin(struct runs *rs, struct run *r, const struct frame *f)
{
	static const struct agent_exit killed = {.how = AGENT_END_KILLED, .code = 9};

	if (run_stdin_data(rs, r, f) == 0)
		return;
	log_warn("a client sent more stdin than granted");
	if (r->client.attached)
		run_client_end(rs, r, &killed);
	else
		run_force(r, AGENT_END_KILLED);
}

static void on_signal(struct run *r, const struct frame *f)
{
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	uint32_t signal = cursor_u32(&c);
	if (cursor_done(&c) && signal >= 1 && signal <= 64)
		run_signal(r, (int)signal);
}

static void on_resize(struct run *r, const struct frame *f)
{
	struct agent_size size;
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	if (agent_size_decode(&c, &size) == 0)
		run_resize(r, &size);
}

bool runs_frame(struct runs *rs, const struct frame *f)
{
	struct run *r = runs_find(rs, f->stream);

	if (!r)
		return false;
	switch (f->type) {
	case AGENT_SIGNAL:
		on_signal(r, f);
		break;
	case AGENT_KILL:
		if (r->client.attached)
			run_detach(rs, r);
		else
			run_force(r, AGENT_END_KILLED);
		break;
	case AGENT_DETACH:
		run_detach(rs, r);
		break;
	case AGENT_STDIN:
		on_stdin(rs, r, f);
		break;
	case AGENT_STDIN_EOF:
		r->in.eof = true;
		break;
	case AGENT_WINDOW:
		run_window(r, f);
		break;
	case AGENT_RESIZE:
		on_resize(r, f);
		break;
	default:
		break;
	}
	return true;
}

static struct run *find_attachable(struct runs *rs, const struct agent_attach *m, struct err *e)
{
	struct container_entry *c = containers_find(rs->containers, m->container, e);

	if (!c)
		return NULL;
	if (!c->run || c->is.state == AGENT_CONTAINER_ENDED || c->run->state == RUN_DRAINING) {
		(void)err_set(
			e, ERR_WRONG_STATE, ESRCH, "container %s has ended", container_label(c));
		return NULL;
	}
	if (c->run->client.present) {
		(void)err_set(e, ERR_WRONG_STATE, EBUSY,
			"another client is attached to container %s", container_label(c));
		return NULL;
	}
	return c->run;
}

void runs_attach(struct runs *rs, uint32_t stream, const struct agent_attach *m)
{
	struct err e;
	struct run *r = find_attachable(rs, m, &e);

	if (!r)
		return run_send_failed(rs, stream, &e);
	r->client = (struct run_client){.present = true, .attached = true, .stream = stream};
	r->in.granted = r->in.consumed = 0;
	if (r->flags & AGENT_TTY && r->flags & AGENT_STDIN_OPEN)
		r->in.eof = r->in.end_typed = false;
	for (size_t i = 0; i < 2; i++) {
		r->out[i].window = 0;
		r->out[i].eof_sent = false;
	}
	mux_send(rs->mux, AGENT_RUN_STARTED, stream, NULL, 0);
	if (m->size.rows > 0 && m->size.columns > 0)
		run_resize(r, &m->size);
	if (m->flags & AGENT_STDIN_OPEN)
		run_stdin_grant(rs, r);
	for (size_t i = 0; i < 2; i++)
		if (r->out[i].ended)
			run_send_eof(rs, r, i);
}
