/* SPDX-License-Identifier: Apache-2.0 */
#include "image-config.h"

#include "../base/strv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static int no_memory(struct err *e)
{
	return err_set(e, ERR_IO, ENOMEM, "out of memory");
}

static int append_all(char ***v, char *const *more, struct err *e)
{
	for (; more && *more; more++)
		if (strv_add(v, *more) < 0)
			return no_memory(e);
	return 0;
}

static int set_all(char ***env, char *const *more, struct err *e)
{
	for (; more && *more; more++)
		if (strv_env_set(env, *more) < 0)
			return no_memory(e);
	return 0;
}

static int get_list(const json_t *o, const char *key, char ***ret, struct err *e)
{
	int r = json_get_strv_or_empty(o, key, AGENT_ARGS_MAX, AGENT_ARGS_BYTES_MAX, ret, e);

	return r < 0 ? err_wrap(e, "the image's configuration") : 0;
}

/* ENTRYPOINT + (CMD of the request, else of the image unless the entrypoint was replaced). */
static int build_argv(
	const json_t *config, const struct client_run *run, char ***ret, struct err *e)
{
	cleanup_strv char **argv = strv_new(), **entrypoint = NULL, **cmd = NULL;
	char *const *second = run->argv;
	int r;

	if (!argv)
		return no_memory(e);
	if ((r = get_list(config, "Entrypoint", &entrypoint, e)) < 0 ||
		(r = get_list(config, "Cmd", &cmd, e)) < 0)
		return r;
	if (strv_len(run->argv) == 0 && !run->entrypoint)
		second = cmd;
	if ((r = append_all(&argv, run->entrypoint ? run->entrypoint : entrypoint, e)) < 0 ||
		(r = append_all(&argv, second, e)) < 0)
		return r;
	if (strv_len(argv) == 0) {
		r = err_set(e, ERR_INVALID, 0, "no command: the image has none of its own");
		(void)err_hint(e, "name a command after the image");
		return r;
	}
	*ret = strv_take(&argv);
	return 0;
}

static int build_env(const json_t *config, char *const *sandbox_env, const struct client_run *run,
	char ***ret, struct err *e)
{
	cleanup_strv char **env = strv_new(), **own = NULL;
	int r;

	if (!env || strv_env_set(&env, DEFAULT_PATH) < 0)
		return no_memory(e);
	if ((r = get_list(config, "Env", &own, e)) < 0 || (r = set_all(&env, own, e)) < 0 ||
		(r = set_all(&env, sandbox_env, e)) < 0 || (r = set_all(&env, run->env, e)) < 0)
		return r;
	*ret = strv_take(&env);
	return 0;
}

static size_t bytes_of(char *const *v)
{
	size_t n = 0;

	for (; *v; v++)
		n += strlen(*v) + 4;
	return n;
}

static int apply(const json_t *config, char *const *sandbox_env, const struct client_run *run,
	struct agent_run *m, struct err *e)
{
	const char *cwd, *user;
	int r;

	if ((r = build_argv(config, run, &m->argv, e)) < 0 ||
		(r = build_env(config, sandbox_env, run, &m->env, e)) < 0 ||
		(r = json_get_str_or(config, "WorkingDir", 4000, "", &cwd, e)) < 0 ||
		(r = json_get_str_or(config, "User", 256, "", &user, e)) < 0)
		return r;
	if (run->cwd)
		cwd = run->cwd;
	if (*cwd == '\0')
		cwd = "/";
	if (*cwd != '/') {
		r = err_set(e, ERR_INVALID, 0, "the working folder \"%s\" is not an absolute path",
			cwd);
		(void)err_hint(e, "-w /%s", cwd);
		return r;
	}
	m->cwd = strdup(cwd);
	m->user = strdup(run->user ? run->user : user);
	if (!m->cwd || !m->user)
		return no_memory(e);
	if (bytes_of(m->argv) + bytes_of(m->env) > AGENT_ARGS_BYTES_MAX - 8192)
		return err_set(e, ERR_LIMIT, 0, "command and environment are longer than %u kB",
			(AGENT_ARGS_BYTES_MAX - 8192) / 1024);
	return 0;
}

int image_config_apply(const char *text, char *const *sandbox_env, const struct client_run *run,
	struct agent_run *ret, struct err *e)
{
	cleanup_json *image = NULL;
	json_t *config = NULL;
	struct agent_run m = {0};
	int r = json_parse_object(text, strlen(text), "the image's configuration", &image, e);

	if (r < 0)
		return r;
	config = json_object_get(image, "config");
	cleanup_json *empty = json_object();
	r = apply(json_is_object(config) ? config : empty, sandbox_env, run, &m, e);
	if (r < 0) {
		agent_run_release(&m);
		return r;
	}
	*ret = m;
	return 0;
}
