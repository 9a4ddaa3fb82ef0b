/* SPDX-License-Identifier: Apache-2.0 */
/* The operations that look at containers and wait for them: container-attach, logs, wait, ps; and
 * the record of a container's end. */
#include "session.h"

#include "agent-view.h"

#include "../base/log.h"
#include "../proto/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct look {
	struct session session;
	const char *container; /* the request's */
	json_t *list;	       /* ps */
	struct buf message;
};

static int prepare(struct op *op, const struct session_kind *kind, bool names, struct err *e)
{
	struct look *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	op->state = l;
	session_init(&l->session, op, kind);
	buf_init(&l->message, 512);
	if (!names)
		return 0;
	r = json_get_str(op->request, "container", AGENT_REF_SIZE - 1, &l->container, e);
	return r < 0 ? r : agent_ref_check(l->container, op->s->row.name, e);
}

static void begin(struct op *op)
{
	struct look *l = op->state;
	struct err e;

	session_begin(&l->session);
	if (session_open(&l->session, &l->message, &e) < 0)
		op_fail(op, &e);
}

static void release(struct op *op)
{
	struct look *l = op->state;

	if (!l)
		return;
	session_release(&l->session);
	json_decref(l->list);
	buf_release(&l->message);
	free(l);
}

static int attach_prepare(struct op *op, struct err *e)
{
	static const struct session_kind kind = {
		.opens = AGENT_ATTACH,
		.carries = SESSION_STDIN | SESSION_STDOUT | SESSION_STDERR,
		.signals = true,
		.leave = AGENT_DETACH,
		.names_container = true,
	};
	struct agent_attach m = {0};
	uint64_t rows, columns;
	bool stdin_open;
	int r = prepare(op, &kind, true, e);
	struct look *l = op->state;

	if (r < 0 || (r = json_get_u64_or(op->request, "rows", UINT16_MAX, 0, &rows, e)) < 0 ||
		(r = json_get_u64_or(op->request, "columns", UINT16_MAX, 0, &columns, e)) < 0 ||
		(r = json_get_bool_or(op->request, "stdin", false, &stdin_open, e)) < 0)
		return r;
	if (stdin_open)
		m.flags = AGENT_STDIN_OPEN;
	else
		l->session.carries &= ~SESSION_STDIN;
	m.size = (struct agent_size){(uint16_t)rows, (uint16_t)columns};
	(void)snprintf(m.container, sizeof(m.container), "%s", l->container);
	agent_attach_encode(&l->message, &m);
	(void)json_object_set_new(op->detail, "container", json_string(l->container));
	session_bind(op);
	return 0;
}

static int logs_prepare(struct op *op, struct err *e)
{
	static const struct session_kind kind = {.opens = AGENT_LOGS,
		.carries = SESSION_STDOUT,
		.leave = AGENT_DETACH,
		.names_container = true};
	struct agent_logs m = {0};
	bool follow;
	int r = prepare(op, &kind, true, e);
	struct look *l = op->state;

	if (r < 0 ||
		(r = json_get_u64_or(op->request, "since_ns", INT64_MAX, 0, &m.since_ns, e)) < 0 ||
		(r = json_get_bool_or(op->request, "follow", false, &follow, e)) < 0)
		return r;
	m.follow = follow;
	(void)snprintf(m.container, sizeof(m.container), "%s", l->container);
	agent_logs_encode(&l->message, &m);
	return 0;
}

static int wait_prepare(struct op *op, struct err *e)
{
	static const struct session_kind kind = {
		.opens = AGENT_WAIT, .leave = AGENT_DETACH, .names_container = true};
	struct agent_ref m = {0};
	int r = prepare(op, &kind, true, e);
	struct look *l = op->state;

	if (r < 0)
		return r;
	(void)snprintf(m.container, sizeof(m.container), "%s", l->container);
	agent_ref_encode(&l->message, &m);
	return 0;
}

/* ---- ps ---- */

static int add_container(struct session *x, const struct agent_container *c, struct err *e)
{
	struct look *l = (struct look *)x;
	json_t *o;

	if (json_array_size(l->list) >= AGENT_CONTAINERS_MAX)
		return err_set(e, ERR_PROTOCOL, 0, "the guest lists more than %d containers",
			AGENT_CONTAINERS_MAX);
	int r = agent_container_json(c, &o);
	if (r == -EPROTO)
		return err_set(e, ERR_PROTOCOL, 0, "the guest lists what cannot be a container");
	if (r < 0 || json_array_append_new(l->list, o) < 0)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	return 0;
}

/* Only the list: what the session ended with says nothing. */
static void ps_result(struct session *x, json_t *members)
{
	(void)json_object_clear(members);
	(void)json_object_set(members, "containers", ((struct look *)x)->list);
}

static int ps_prepare(struct op *op, struct err *e)
{
	static const struct session_kind kind = {.opens = AGENT_LIST,
		.leave = AGENT_DETACH,
		.container = add_container,
		.result = ps_result};
	int r = prepare(op, &kind, false, e);

	if (r < 0)
		return r;
	((struct look *)op->state)->list = json_array();
	return 0;
}

/* ---- the end of a kept container ---- */

static void complain(struct supervisor *s, const char *of)
{
	if (!s->ends_told)
		log_warn("the guest reports the end of %s: ignored, as all that follow", of);
	s->ends_told = true;
}

void op_container_ended(struct supervisor *s, const struct frame *f)
{
	static const struct audit_actor guest = {.kind = "agent", .name = "kosa8-agent"};
	cleanup_json *o = NULL;
	struct agent_container m;
	struct cursor c;
	struct err e;

	cursor_init(&c, f->payload, f->len);
	if (agent_container_decode(&c, &m) < 0 || m.state != AGENT_CONTAINER_ENDED ||
		agent_container_json(&m, &o) < 0) {
		complain(s, "what cannot be a container");
		return;
	}
	/* Each kept container ends once. A guest that reports more could fill the host's disk. */
	if (s->ends_left == 0) {
		complain(s, "more containers than there were");
		return;
	}
	s->ends_left--;
	cleanup_json *detail = json_pack("{s:s, s:s}", "id", m.id, "name", m.name);
	agent_end_put(&m.exit, detail);
	struct audit_event ev = {.action = "container.end",
		.sandbox = s->row.name,
		.sandbox_id = s->row.id,
		.actor = &guest,
		.detail = detail};
	if (audit_end(s->audit, &ev, 0, "ok", &e) < 0)
		log_warn("the end of container %s is not in the audit log: %s", m.id, e.what);
}

#define LOOK_KIND(op_name, op_action, op_answered, op_prepare)                                 \
	{                                                                                      \
		.name = (op_name), .action = (op_action), .of_machine = true,                  \
		.answered = (op_answered), .prepare = (op_prepare), .start = begin,            \
		.frame = session_client_frame, .gone = session_client_gone, .release = release \
	}

const struct op_kind op_container_attach =
	LOOK_KIND("container-attach", "container.attach", false, attach_prepare);
const struct op_kind op_logs = LOOK_KIND("logs", NULL, false, logs_prepare);
const struct op_kind op_wait = LOOK_KIND("wait", NULL, false, wait_prepare);
const struct op_kind op_ps = LOOK_KIND("ps", NULL, true, ps_prepare);
