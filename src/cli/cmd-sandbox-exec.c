/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include "session.h"

#include <errno.h>

static int take_exec(
	const struct args *a, struct client_exec *x, struct stream_options *o, struct err *e)
{
	int r;

	x->container = o->container = a->operands[1];
	if ((r = session_check_container(x->container, e)) < 0 ||
		(r = session_streams(a, o, e)) < 0)
		return r;
	x->stdin_open = o->stdin_open;
	x->tty = o->tty;
	x->timeout_ms = o->timeout_ms;
	if ((r = session_argv(a, 2, &x->argv, e)) < 0 ||
		(r = session_env(a, o->tty, &x->env, e)) < 0 ||
		(r = session_place(a, &x->cwd, &x->user, e)) < 0)
		return r;
	return session_check_size(x->argv, x->env, e);
}

static int exec_on(const struct context *c, const struct sandbox *s, const struct client_exec *x,
	const struct stream_options *o, struct err *e)
{
	cleanup_json *request = context_request(c, "exec");

	if (!request || client_exec_encode(x, request) < 0)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	return session_run(s, request, o, e);
}

int cmd_sandbox_exec(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	struct stream_options o = {.verb = "exec", .exec = true};
	struct client_exec x = {0};
	int r = take_exec(a, &x, &o, e);

	if (r >= 0 && (r = session_open(a->operands[0], &c, &s, e)) >= 0)
		r = exec_on(&c, &s, &x, &o, e);
	client_exec_release(&x);
	return r;
}
