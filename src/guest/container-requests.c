/* SPDX-License-Identifier: Apache-2.0 */
#include "container-requests.h"

#include "run-internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

static void reply(struct runs *rs, uint32_t stream, const struct err *e)
{
	struct agent_reply m = {0};

	if (e) {
		m.status = (uint32_t)-err_code(e);
		(void)snprintf(m.text, sizeof(m.text), "%.*s", AGENT_TEXT_MAX - 1, e->what);
	}
	mux_reply(rs->mux, AGENT_REPLY, stream, &m);
}

static int signal_it(struct runs *rs, const struct agent_signal *m, struct err *e)
{
	struct container_entry *c = containers_find(rs->containers, m->container, e);

	if (!c)
		return err_code(e);
	if (!c->run || c->is.state == AGENT_CONTAINER_ENDED || c->run->state == RUN_DRAINING)
		return err_set(
			e, ERR_WRONG_STATE, ESRCH, "container %s has ended", container_label(c));
	if (m->signal != SIGKILL) {
		run_signal(c->run, (int)m->signal);
		return 0;
	}
	c->run->killed = true;
	int r = cgroup_kill(c->cgroup_fd);
	return r < 0 ? err_errno(e, -r, "end container %s", container_label(c)) : 0;
}

void container_signal(struct runs *rs, const struct frame *f)
{
	struct agent_signal m;
	struct cursor c;
	struct err e;

	cursor_init(&c, f->payload, f->len);
	if (agent_signal_decode(&c, &m) < 0) {
		(void)err_set(&e, ERR_PROTOCOL, EPROTO, "malformed SIGNAL_CONTAINER");
		return reply(rs, f->stream, &e);
	}
	reply(rs, f->stream, signal_it(rs, &m, &e) < 0 ? &e : NULL);
}

/* 1: it is gone; 0: the reply comes later. */
static int remove_it(struct runs *rs, uint32_t stream, const struct agent_remove *m, struct err *e)
{
	struct container_entry *c = containers_find(rs->containers, m->container, e);

	if (!c)
		return err_code(e);
	if (!c->run) {
		containers_remove(rs->containers, c);
		return 1;
	}
	if (c->removing)
		return err_set(e, ERR_WRONG_STATE, EBUSY, "container %s is being removed",
			container_label(c));
	if (!m->force && c->is.state != AGENT_CONTAINER_ENDED)
		return err_set(
			e, ERR_WRONG_STATE, EBUSY, "container %s is running", container_label(c));
	c->removing = true;
	c->remover = stream;
	run_force(c->run, AGENT_END_KILLED);
	return 0;
}

void container_remove(struct runs *rs, const struct frame *f)
{
	struct agent_remove m;
	struct cursor c;
	struct err e;

	cursor_init(&c, f->payload, f->len);
	if (agent_remove_decode(&c, &m) < 0) {
		(void)err_set(&e, ERR_PROTOCOL, EPROTO, "malformed REMOVE");
		return reply(rs, f->stream, &e);
	}
	int r = remove_it(rs, f->stream, &m, &e);
	if (r != 0)
		reply(rs, f->stream, r < 0 ? &e : NULL);
}
