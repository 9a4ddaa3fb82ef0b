/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include "containers.h"
#include "session.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* What the container has decides: it is asked for first. One that is not in the list is left to the
 * supervisor, which knows the nearest name. */
static int take_container(const struct args *a, const struct context *c, const struct sandbox *s,
	struct stream_options *o, struct err *e)
{
	cleanup_json *list = NULL;
	struct container found;
	int r;

	if ((r = containers_list(c, s, &list, e)) < 0 ||
		(r = container_find(list, o->container, &found, e)) <= 0)
		return r;
	o->tty = found.tty;
	o->redraw = found.tty;
	o->stdin_open = found.stdin_open && !args_on(a, "no-stdin");
	if (!o->tty || !o->stdin_open || isatty(STDIN_FILENO))
		return 0;
	(void)err_set(e, ERR_INVALID, ENOTTY,
		"attach: the input device is not a TTY: %s has a terminal, and stdin is none",
		o->container);
	return err_hint(e, "kosa8 sandbox attach --no-stdin %s %s", s->row.name, o->container);
}

int cmd_sandbox_attach(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	struct stream_options o = {.verb = "attach", .container = a->operands[1], .stays = true};
	int r;

	if ((r = session_detach_keys(a, &o.detach_keys, e)) < 0 ||
		(r = session_check_container(o.container, e)) < 0 ||
		(r = session_open(a->operands[0], &c, &s, e)) < 0 ||
		(r = take_container(a, &c, &s, &o, e)) < 0)
		return r;
	cleanup_json *request = context_request(&c, "container-attach");
	(void)json_object_set_new(request, "container", json_string(o.container));
	(void)json_object_set_new(request, "stdin", json_boolean(o.stdin_open));
	return session_run(&s, request, &o, e);
}
