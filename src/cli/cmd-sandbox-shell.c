/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include "session.h"

#include "../base/strv.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define WORKSPACE "/workspace"

/* The best shell that is there, decided inside. Not a login shell: its /etc/profile would replace
 * the PATH that the image sets. */
static const char best_shell[] = "exec \"$(command -v bash || command -v zsh || command -v ash || "
				 "echo /bin/sh)\"";

/* On a terminal one to work in; else a plain sh that reads its commands from stdin. */
static int shell_argv(bool tty, char ***ret, struct err *e)
{
	cleanup_strv char **v = strv_new();

	if (!v || strv_add(&v, "/bin/sh") < 0 ||
		(tty && (strv_add(&v, "-c") < 0 || strv_add(&v, best_shell) < 0)))
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	*ret = strv_take(&v);
	return 0;
}

static const char *image_name(const struct image_row *row)
{
	return row->refs && row->refs[0] ? row->refs[0] : row->digest;
}

/* The image that the sandbox has, when it is the only one. Copied to *ret. */
static int only_image(const struct context *c, const struct sandbox *s, char **ret, struct err *e)
{
	cleanup_image_rows struct image_rows rows = {0};
	cleanup_buf struct buf names = {0};
	int r = catalog_sandbox_images(c->catalog, s->row.id, &rows, e);

	if (r < 0)
		return r;
	if (rows.len == 1) {
		*ret = strdup(image_name(&rows.rows[0]));
		return *ret ? 0 : err_set(e, ERR_IO, ENOMEM, "out of memory");
	}
	if (rows.len == 0)
		(void)err_set(e, ERR_NOT_FOUND, 0, "the sandbox %s has no image yet", s->row.name);
	buf_init(&names, 4096);
	for (size_t i = 0; i < rows.len; i++)
		buf_putf(&names, "%s%s", i > 0 ? ", " : "", image_name(&rows.rows[i]));
	if (rows.len > 0)
		(void)err_set(e, ERR_INVALID, 0, "the sandbox %s has several images: %.250s",
			s->row.name, buf_failed(&names) ? "too many" : buf_cstr(&names));
	return err_hint(e, "kosa8 sandbox shell %s IMAGE", s->row.name);
}

static int no_shell(const struct sandbox *s, const char *where, struct err *e)
{
	if (e->kind != ERR_CMD_NOT_FOUND)
		return err_code(e);
	(void)err_set(e, ERR_CMD_NOT_FOUND, 0, "shell: there is no /bin/sh in %.120s", where);
	return err_hint(
		e, "another program of it: kosa8 sandbox run %s IMAGE PROGRAM", s->row.name);
}

static int shell_in_container(const struct args *a, const struct context *c,
	const struct sandbox *s, struct stream_options *o, struct err *e)
{
	struct client_exec x = {.container = o->container, .stdin_open = true, .tty = o->tty};
	int r;

	if ((r = shell_argv(o->tty, &x.argv, e)) >= 0 &&
		(r = session_env(a, o->tty, &x.env, e)) >= 0 &&
		(r = session_place(a, &x.cwd, &x.user, e)) >= 0) {
		cleanup_json *request = context_request(c, "exec");
		if (!request || client_exec_encode(&x, request) < 0)
			r = err_set(e, ERR_IO, ENOMEM, "out of memory");
		else
			r = session_run(s, request, o, e);
	}
	client_exec_release(&x);
	return r < 0 ? no_shell(s, o->container, e) : r;
}

static int shell_in_image(const struct args *a, struct context *c, const struct sandbox *s,
	const struct stream_options *o, struct err *e)
{
	cleanup_str char *only = NULL;
	struct client_run run = {.stdin_open = true, .tty = o->tty};
	const char *image = a->operands_len > 1 ? a->operands[1] : NULL;
	int r;

	if (!image && (r = only_image(c, s, &only, e)) < 0)
		return r;
	image = image ? image : only;
	run.entrypoint = strv_new();
	if (!run.entrypoint)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	if ((r = shell_argv(o->tty, &run.argv, e)) >= 0 &&
		(r = session_env(a, o->tty, &run.env, e)) >= 0 &&
		(r = session_place(a, &run.cwd, &run.user, e)) >= 0) {
		run.cwd = run.cwd ? run.cwd : WORKSPACE;
		r = session_run_image(c, s, image, args_on(a, "quiet"), &run, o, e);
	}
	client_run_release(&run);
	return r < 0 ? no_shell(s, image, e) : r;
}

int cmd_sandbox_shell(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	struct stream_options o = {.verb = "shell",
		.container = args_value(a, "container"),
		.exec = args_value(a, "container") != NULL,
		.stdin_open = true,
		.tty = isatty(STDIN_FILENO)};
	int r;

	if (o.container && a->operands_len > 1)
		return err_set(e, ERR_USAGE, 0, "shell: an IMAGE or --container, not both");
	if ((r = session_detach_keys(a, &o.detach_keys, e)) < 0 ||
		(o.container && (r = session_check_container(o.container, e)) < 0) ||
		(r = session_open(a->operands[0], &c, &s, e)) < 0)
		return r;
	return o.container ? shell_in_container(a, &c, &s, &o, e)
			   : shell_in_image(a, &c, &s, &o, e);
}
