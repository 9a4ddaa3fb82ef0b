/* SPDX-License-Identifier: Apache-2.0 */
#include "op.h"

#include "../base/log.h"
#include "../proto/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct op_kind *const kinds[] = {&op_start, &op_status, &op_attach, &op_run, &op_exec,
	&op_container_attach, &op_logs, &op_wait, &op_ps, &op_kill, &op_container_rm, &op_copy,
	&op_checkpoint, &op_checkpoint_rm, &op_rewind, &op_stop, &op_destroy, &op_mount_add,
	&op_mount_rm, &op_port_add, &op_port_rm};

struct op_ref {
	struct op *op; /* NULL: it has ended */
	struct op_ref *next;
};

static const struct op_kind *find_kind(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i]->name, name) == 0)
			return kinds[i];
	return NULL;
}

static size_t count(const struct supervisor *s)
{
	size_t n = 0;

	for (const struct op *op = s->ops; op; op = op->next)
		n++;
	return n;
}

static void append(struct supervisor *s, struct op *op)
{
	struct op **at = &s->ops;

	while (*at)
		at = &(*at)->next;
	*at = op;
}

struct op_ref *op_ref_new(struct op *op)
{
	struct op_ref *ref = malloc(sizeof(*ref));

	if (!ref)
		return NULL;
	*ref = (struct op_ref){op, op->refs};
	op->refs = ref;
	return ref;
}

struct op *op_ref_end(struct op_ref *ref)
{
	struct op *op = ref->op;

	for (struct op_ref **at = op ? &op->refs : NULL; at && *at; at = &(*at)->next)
		if (*at == ref) {
			*at = ref->next;
			break;
		}
	free(ref);
	return op;
}

static void on_limit(uv_timer_t *timer)
{
	op_unanswered(timer->data);
}

static void on_limit_closed(uv_handle_t *handle)
{
	free(handle);
}

static int limit_start(struct op *op, struct err *e)
{
	if (!op->kind->answered)
		return 0;
	op->limit = calloc(1, sizeof(*op->limit));
	if (!op->limit)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	op->limit->data = op;
	(void)uv_timer_init(&op->s->loop, op->limit);
	(void)uv_timer_start(op->limit, on_limit, OP_ANSWER_MS, 0);
	return 0;
}

static void op_free(struct op *op)
{
	if (op->limit)
		uv_close((uv_handle_t *)op->limit, on_limit_closed);
	for (struct op_ref *ref = op->refs; ref; ref = ref->next)
		ref->op = NULL;
	if (op->kind->release)
		op->kind->release(op);
	if (op->conn)
		conn_set_user(op->conn, NULL);
	json_decref(op->request);
	json_decref(op->bound);
	json_decref(op->detail);
	free(op);
}

static struct audit_event event_of(const struct op *op)
{
	return (struct audit_event){.action = op->action,
		.sandbox = op->s->row.name,
		.sandbox_id = op->s->row.id,
		.actor = &op->actor,
		.bound = op->bound,
		.detail = op->detail};
}

static void settle(uv_work_t *work)
{
	struct supervisor *s = work->data;

	s->settle_result = audit_settle(s->audit, s->settle_sig);
}

static void on_settled(uv_work_t *work, int status)
{
	struct supervisor *s = work->data;

	s->settling = false;
	if (status == 0 && s->settle_result == 0)
		audit_settled(s->audit, s->settle_sig);
}

/* Half of what an append waits for is made durable while the guest works or nothing happens. */
static void settle_soon(struct supervisor *s)
{
	if (s->settling || s->state != SUPERVISOR_RUNNING)
		return;
	s->settle_work.data = s;
	s->settling = uv_queue_work(&s->loop, &s->settle_work, settle, on_settled) == 0;
}

/* An action that cannot be recorded is not performed. */
static int record_begin(struct op *op, struct err *e)
{
	if (!op->action || op->audit_seq)
		return 0;
	(void)json_object_set_new(op->bound, "policy", json_string(op->s->policy_hash));
	struct audit_event ev = event_of(op);
	int r = audit_begin(op->s->audit, &ev, &op->audit_seq, e);
	if (r < 0)
		return err_wrap(e, "not done, since it cannot be recorded");
	settle_soon(op->s);
	return r;
}

static void end(struct op *op, json_t *result, const struct err *why)
{
	struct supervisor *s = op->s;
	struct err e;

	if (op->audit_seq && s->audit) {
		struct audit_event ev = event_of(op);
		if (audit_end(s->audit, &ev, op->audit_seq, why ? err_kind_name(why->kind) : "ok",
			    &e) < 0)
			log_warn("the end of record %llu is not in the audit log: %s",
				(unsigned long long)op->audit_seq, e.what);
		settle_soon(s);
	}
	for (struct op **at = &s->ops; *at; at = &(*at)->next)
		if (*at == op) {
			*at = op->next;
			break;
		}
	struct conn *c = op->conn;
	op->conn = NULL;
	if (c)
		conn_set_user(c, NULL);
	op_free(op);
	if (c && why)
		conn_finish_error(c, why);
	else if (c)
		conn_finish(c, json_incref(result));
	json_decref(result);
	op_advance(s);
}

void op_succeed(struct op *op, json_t *members)
{
	json_t *result = members ? members : json_object();

	(void)json_object_set_new(result, "ok", json_true());
	end(op, result, NULL);
}

void op_fail(struct op *op, const struct err *why)
{
	struct err copy = *why;

	if (op->detail)
		(void)json_object_set_new(op->detail, "error", json_string(copy.what));
	end(op, NULL, &copy);
}

static void start(struct op *op)
{
	struct supervisor *s = op->s;
	struct err e;

	op->active = true;
	if (op->kind->startup != (s->state == SUPERVISOR_STARTING)) {
		(void)err_set(&e, ERR_WRONG_STATE, 0, "the sandbox is %s",
			s->state == SUPERVISOR_STARTING ? "still starting" : "already running");
		op_fail(op, &e);
	} else if (s->state == SUPERVISOR_ENDING) {
		(void)err_set(&e, ERR_WRONG_STATE, 0, "the sandbox is stopping");
		op_fail(op, &e);
	} else if (record_begin(op, &e) < 0 || limit_start(op, &e) < 0) {
		op_fail(op, &e);
	} else {
		op->kind->start(op);
	}
}

static bool exclusive_is_active(const struct supervisor *s)
{
	for (const struct op *op = s->ops; op; op = op->next)
		if (op->active && op->kind->exclusive)
			return true;
	return false;
}

void op_unanswered(struct op *op)
{
	struct supervisor *s = op->s;
	struct err e;

	if (exclusive_is_active(s)) {
		(void)uv_timer_start(op->limit, on_limit, OP_ANSWER_MS, 0);
		return;
	}
	if (s->disk_full) {
		(void)supervisor_why_it_waits(s, &e);
	} else {
		(void)err_set(
			&e, ERR_UNAVAILABLE, 0, "the guest of %s does not answer", s->row.name);
		(void)err_hint(&e, "again; kosa8 sandbox stop %s ends it in any case", s->row.name);
	}
	op_fail(op, &e);
}

/* The oldest waiting one that may start: an exclusive one when nothing exclusive is active, any
 * other when no exclusive one is active or waits before it. */
static struct op *next_to_start(const struct supervisor *s)
{
	if (exclusive_is_active(s))
		return NULL;
	for (struct op *op = s->ops; op; op = op->next)
		if (!op->active)
			return op;
	return NULL;
}

void op_advance(struct supervisor *s)
{
	struct op *op;

	while ((op = next_to_start(s)))
		start(op);
}

void op_fail_all(struct supervisor *s, const struct op *except, const struct err *why)
{
	for (struct op *op = s->ops; op;) {
		/* op_fail() may start and end others: begin again after each. */
		if (op == except) {
			op = op->next;
			continue;
		}
		op->active = true;
		op_fail(op, why);
		op = s->ops;
	}
}

void op_fail_of_machine(struct supervisor *s, const struct err *why)
{
	for (struct op *op = s->ops; op;) {
		if (!op->active || !op->kind->of_machine) {
			op = op->next;
			continue;
		}
		op_fail(op, why);
		op = s->ops;
	}
}

void op_notice(struct op *op, const char *text)
{
	if (!op->conn)
		return;
	conn_notice(op->conn, text);
	conn_flush_now(op->conn);
}

static int decode(struct op *op, struct err *e)
{
	json_t *actor;
	const char *name;
	int r;

	if ((r = json_get_str(op->request, "op", 32, &name, e)) < 0 ||
		(r = json_get_object(op->request, "actor", &actor, e)) < 0 ||
		(r = audit_actor_decode(actor, &op->actor, e)) < 0)
		return r;
	/* The kernel's word counts, not the client's. */
	op->actor.pid = conn_pid(op->conn);
	op->actor.uid = conn_uid(op->conn);
	if (op->actor.uid != geteuid())
		return err_set(e, ERR_DENIED, 0, "the sandbox belongs to another user");
	op->kind = find_kind(name);
	if (!op->kind)
		return err_set(e, ERR_PROTOCOL, 0, "no operation \"%s\"", name);
	if (count(op->s) >= (op->kind->of_machine ? OPS_MAX : OPS_ALL_MAX))
		return err_set(
			e, ERR_LIMIT, 0, "%d operations are under way in this sandbox", OPS_MAX);
	op->action = op->kind->action;
	return op->kind->prepare ? op->kind->prepare(op, e) : 0;
}

static void tell_why_it_waits(struct op *op)
{
	struct err e;

	(void)supervisor_why_it_waits(op->s, &e);
	conn_notice(op->conn, e.what);
}

void op_submit(struct op *op)
{
	append(op->s, op);
	if (op->kind->of_machine && op->s->disk_full && op->conn)
		tell_why_it_waits(op);
	if (op->kind->immediate)
		start(op);
	else
		op_advance(op->s);
}

static void on_request(void *ctx, struct conn *c, json_t *request)
{
	static const struct op_kind none = {.name = "none"};
	struct op *op = calloc(1, sizeof(*op));
	struct err e;

	if (!op) {
		json_decref(request);
		(void)err_set(&e, ERR_IO, ENOMEM, "out of memory");
		conn_finish_error(c, &e);
		return;
	}
	*op = (struct op){.kind = &none,
		.s = ctx,
		.conn = c,
		.request = request,
		.bound = json_object(),
		.detail = json_object()};
	conn_set_user(c, op);
	if (decode(op, &e) < 0) {
		if (!op->kind)
			op->kind = &none;
		conn_finish_error(c, &e);
		op_free(op);
		return;
	}
	op_submit(op);
}

static void on_frame(void *ctx, struct conn *c, const struct frame *f)
{
	struct op *op = conn_user(c);

	(void)ctx;
	if (op && op->kind->frame)
		op->kind->frame(op, f);
}

static void on_gone(void *ctx, struct conn *c)
{
	struct op *op = conn_user(c);

	(void)ctx;
	if (!op)
		return;
	op->conn = NULL;
	if (op->kind->gone)
		op->kind->gone(op);
}

const struct conn_events op_conn_events = {
	.request = on_request,
	.frame = on_frame,
	.gone = on_gone,
};
