/* SPDX-License-Identifier: Apache-2.0 */
/* exec: one more program in a running container. */
#include "session.h"

#include "agent-view.h"

#include "../base/clock.h"
#include "../proto/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct exec {
	struct session session;
	struct client_exec spec; /* its strings are the request's */
};

static void begin(struct op *op)
{
	struct exec *x = op->state;
	cleanup_buf struct buf b = {0};
	struct agent_exec m = {.flags = (x->spec.stdin_open ? AGENT_STDIN_OPEN : 0) |
					(x->spec.tty ? AGENT_TTY : 0),
		.timeout_ms = x->spec.timeout_ms,
		.wall_ns = (uint64_t)clock_wall_ns(),
		.size = {(uint16_t)x->spec.rows, (uint16_t)x->spec.columns},
		/* Only read by the encoder. */
		.user = (char *)(uintptr_t)x->spec.user,
		.cwd = (char *)(uintptr_t)x->spec.cwd,
		.argv = x->spec.argv,
		.env = x->spec.env};
	struct err e;

	(void)snprintf(m.container, sizeof(m.container), "%s", x->spec.container);
	session_begin(&x->session);
	buf_init(&b, FRAME_PAYLOAD_MAX);
	agent_exec_encode(&b, &m);
	if (session_open(&x->session, &b, &e) < 0)
		op_fail(op, &e);
}

static int prepare(struct op *op, struct err *e)
{
	static const struct session_kind kind = {
		.opens = AGENT_EXEC,
		.carries = SESSION_STDIN | SESSION_STDOUT | SESSION_STDERR,
		.signals = true,
		.tree = true,
		.leave = AGENT_KILL,
		.names_container = true,
	};
	struct exec *x = calloc(1, sizeof(*x));
	int r;

	if (!x)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	op->state = x;
	session_init(&x->session, op, &kind);
	if ((r = client_exec_decode(op->request, &x->spec, e)) < 0 ||
		(r = agent_ref_check(x->spec.container, op->s->row.name, e)) < 0)
		return r;
	if (!x->spec.argv[0])
		return err_set(e, ERR_INVALID, 0, "no command to execute");
	if (x->spec.cwd && x->spec.cwd[0] != '/')
		return err_set(e, ERR_INVALID, 0,
			"the working folder \"%.100s\" is not an absolute path", x->spec.cwd);
	if (!x->spec.stdin_open)
		x->session.carries &= ~SESSION_STDIN;
	(void)json_object_set_new(op->detail, "container", json_string(x->spec.container));
	(void)json_object_set_new(op->detail, "argv", client_bytes_encode(x->spec.argv));
	session_bind(op);
	return 0;
}

static void release(struct op *op)
{
	struct exec *x = op->state;

	if (!x)
		return;
	session_release(&x->session);
	client_exec_release(&x->spec);
	free(x);
}

const struct op_kind op_exec = {
	.name = "exec",
	.action = "exec",
	.of_machine = true,
	.prepare = prepare,
	.start = begin,
	.frame = session_client_frame,
	.gone = session_client_gone,
	.release = release,
};
