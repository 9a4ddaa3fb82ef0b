/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include "terminal.h"

#include "../base/strv.h"
#include "../base/text.h"
#include "../proto/agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int out_of_memory(struct err *e)
{
	return err_set(e, ERR_IO, ENOMEM, "out of memory");
}

int session_check_text(const char *what, const char *s, struct err *e)
{
	if (!s || text_is_utf8(s, strlen(s)))
		return 0;
	return err_set(e, ERR_INVALID, 0, "%s \"%.60s\" is not UTF-8", what, s);
}

int session_check_container(const char *ref, struct err *e)
{
	size_t len = strlen(ref);

	if (len > 0 && len < AGENT_NAME_SIZE && text_is_utf8(ref, len))
		return 0;
	return err_set(e, ERR_NOT_FOUND, 0,
		"there is no container \"%.80s\": a name or an id has 1 to %d characters", ref,
		AGENT_NAME_SIZE - 1);
}

int session_env(const struct args *a, bool tty, char ***ret, struct err *e)
{
	cleanup_strv char **v = strv_new();

	if (!v)
		return out_of_memory(e);
	for (const char *const *env = args_list(a, "env"); *env; env++) {
		cleanup_str char *joined = NULL;
		const char *value = getenv(*env);
		if (!**env || **env == '=')
			return err_set(e, ERR_USAGE, 0, "--env: \"%.60s\" is not K=V", *env);
		if (!strchr(*env, '=') && !value)
			continue;
		if (!strchr(*env, '=') && asprintf(&joined, "%s=%s", *env, value) < 0)
			return out_of_memory(e);
		if (strv_env_set(&v, joined ? joined : *env) < 0)
			return out_of_memory(e);
	}
	if (tty && terminal_env(&v) < 0)
		return out_of_memory(e);
	*ret = strv_take(&v);
	return 0;
}

int session_place(const struct args *a, const char **ret_cwd, const char **ret_user, struct err *e)
{
	const char *cwd = args_value(a, "workdir"), *user = args_value(a, "user");
	int r;

	if ((r = session_check_text("--workdir", cwd, e)) < 0 ||
		(r = session_check_text("--user", user, e)) < 0)
		return r;
	if (cwd && cwd[0] != '/')
		return err_set(
			e, ERR_INVALID, 0, "--workdir: \"%.100s\" does not begin with /", cwd);
	*ret_cwd = cwd;
	*ret_user = user;
	return 0;
}

int session_argv(const struct args *a, size_t first, char ***ret, struct err *e)
{
	cleanup_strv char **v = strv_new();

	if (!v)
		return out_of_memory(e);
	for (size_t i = first; i < a->operands_len; i++)
		if (strv_add(&v, a->operands[i]) < 0)
			return out_of_memory(e);
	*ret = strv_take(&v);
	return 0;
}

int session_check_size(char *const *argv, char *const *env, struct err *e)
{
	size_t bytes = 0, count = strv_len(argv);

	for (char *const *p = argv; *p; p++)
		bytes += strlen(*p) + 1;
	for (char *const *p = env; *p; p++)
		bytes += strlen(*p) + 1;
	if (bytes <= AGENT_ARGS_BYTES_MAX && count <= AGENT_ARGS_MAX)
		return 0;
	return err_set(e, ERR_LIMIT, E2BIG,
		"the command and its variables are too long: %zu arguments, %zu bytes; at most %d "
		"and %u",
		count, bytes, AGENT_ARGS_MAX, AGENT_ARGS_BYTES_MAX);
}

int session_detach_keys(const struct args *a, struct detach_keys *ret, struct err *e)
{
	const char *keys = args_value(a, "detach-keys");

	return detach_keys_parse(keys ? keys : DETACH_KEYS_DEFAULT, ret, e);
}

int session_streams(const struct args *a, struct stream_options *o, struct err *e)
{
	int r;

	o->stdin_open = args_on(a, "interactive");
	o->tty = args_on(a, "tty");
	o->timeout = args_value(a, "timeout");
	if ((r = session_detach_keys(a, &o->detach_keys, e)) < 0 ||
		(r = args_duration_ms(a, "timeout", &o->timeout_ms, e)) < 0)
		return r;
	if (o->stdin_open && o->tty && !o->detached && !isatty(STDIN_FILENO)) {
		(void)err_set(e, ERR_INVALID, ENOTTY,
			"%s -it: the input device is not a TTY: stdin is no terminal", o->verb);
		return err_hint(e, "-i alone, which forwards stdin, or -t alone");
	}
	return 0;
}

int session_open(const char *name, struct context *c, struct sandbox *s, struct err *e)
{
	int r = context_open(c, e);

	if (r < 0 || (r = sandbox_open(c, name, s, e)) < 0)
		return r;
	return sandbox_require_running(s, e);
}

int session_run(
	const struct sandbox *s, json_t *request, const struct stream_options *o, struct err *e)
{
	cleanup_connection struct connection con = {.fd = -1};

	if (!request)
		return out_of_memory(e);
	int r = connection_open(s, &con, e);
	return r < 0 ? r : stream_run(&con, request, o, e);
}
