/* SPDX-License-Identifier: Apache-2.0 */
/* kill and container-rm: one request to the agent each. */
#include "op.h"

#include "agent-view.h"

#include "../proto/agent-session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void on_reply(void *ctx, const struct agent_reply *reply)
{
	struct op *op = op_ref_end(ctx);
	struct err e;

	if (!op)
		return;
	if (reply && reply->status == 0) {
		op_succeed(op, NULL);
		return;
	}
	if (reply)
		(void)agent_error(reply, true, op->s->row.name, &e);
	else
		(void)err_set(&e, ERR_CANCELLED, 0, "the machine ended before it answered");
	op_fail(op, &e);
}

static void request(struct op *op, uint16_t type, const struct buf *message)
{
	struct op_ref *ref = op_ref_new(op);
	struct err e;
	int r;

	if (!ref || buf_failed(message))
		r = err_set(&e, ERR_IO, ENOMEM, "out of memory");
	else
		r = channel_request(
			machine_channel(op->s->machine), type, message, on_reply, ref, &e);
	if (r < 0) {
		if (ref)
			(void)op_ref_end(ref);
		op_fail(op, &e);
		return;
	}
	machine_kick(op->s->machine);
}

static int get_container(struct op *op, const char **ret, struct err *e)
{
	int r = json_get_str(op->request, "container", AGENT_REF_SIZE - 1, ret, e);

	if (r < 0 || (r = agent_ref_check(*ret, op->s->row.name, e)) < 0)
		return r;
	(void)json_object_set_new(op->detail, "container", json_string(*ret));
	return 0;
}

static int kill_read(struct op *op, struct agent_signal *ret, struct err *e)
{
	const char *container;
	uint64_t number;
	int r = get_container(op, &container, e);

	if (r < 0 || (r = json_get_u64(op->request, "signal", 64, &number, e)) < 0)
		return r;
	if (number == 0)
		return err_set(e, ERR_INVALID, 0, "a signal is a number from 1 to 64");
	(void)snprintf(ret->container, sizeof(ret->container), "%s", container);
	ret->signal = (uint32_t)number;
	return 0;
}

static int kill_prepare(struct op *op, struct err *e)
{
	struct agent_signal m;
	int r = kill_read(op, &m, e);

	if (r < 0)
		return r;
	(void)json_object_set_new(op->detail, "signal", json_integer(m.signal));
	return 0;
}

static void kill_begin(struct op *op)
{
	cleanup_buf struct buf b = {0};
	struct agent_signal m;
	struct err e;

	if (kill_read(op, &m, &e) < 0) {
		op_fail(op, &e);
		return;
	}
	buf_init(&b, 128);
	agent_signal_encode(&b, &m);
	request(op, AGENT_SIGNAL_CONTAINER, &b);
}

static int rm_read(struct op *op, struct agent_remove *ret, struct err *e)
{
	const char *container;
	bool force;
	int r = get_container(op, &container, e);

	if (r < 0 || (r = json_get_bool_or(op->request, "force", false, &force, e)) < 0)
		return r;
	(void)snprintf(ret->container, sizeof(ret->container), "%s", container);
	ret->force = force;
	return 0;
}

static int rm_prepare(struct op *op, struct err *e)
{
	struct agent_remove m;

	return rm_read(op, &m, e);
}

static void rm_begin(struct op *op)
{
	cleanup_buf struct buf b = {0};
	struct agent_remove m;
	struct err e;

	if (rm_read(op, &m, &e) < 0) {
		op_fail(op, &e);
		return;
	}
	buf_init(&b, 128);
	agent_remove_encode(&b, &m);
	request(op, AGENT_REMOVE, &b);
}

const struct op_kind op_kill = {.name = "kill",
	.action = "container.kill",
	.of_machine = true,
	.answered = true,
	.prepare = kill_prepare,
	.start = kill_begin};

const struct op_kind op_container_rm = {.name = "container-rm",
	.action = "container.rm",
	.of_machine = true,
	.answered = true,
	.prepare = rm_prepare,
	.start = rm_begin};
