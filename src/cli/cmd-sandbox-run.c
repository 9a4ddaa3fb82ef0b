/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include "connect.h"
#include "images.h"
#include "stream.h"

#include "../base/strv.h"
#include "../base/text.h"
#include "../proto/agent.h"
#include "../proto/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int out_of_memory(struct err *e)
{
	return err_set(e, ERR_IO, ENOMEM, "out of memory");
}

/* The wire carries text: JSON. */
static int check_text(const char *what, const char *s, struct err *e)
{
	if (!s || text_is_utf8(s, strlen(s)))
		return 0;
	return err_set(e, ERR_INVALID, 0, "%s \"%.60s\" is not UTF-8", what, s);
}

static int take_command(const struct args *a, struct client_run *run, struct err *e)
{
	run->argv = strv_new();
	for (size_t i = 2; i < a->operands_len; i++)
		if (strv_add(&run->argv, a->operands[i]) < 0)
			return out_of_memory(e);
	const char *entrypoint = args_value(a, "entrypoint");
	if (!entrypoint)
		return run->argv ? 0 : out_of_memory(e);
	run->entrypoint = strv_new();
	if (!run->argv || !run->entrypoint ||
		(*entrypoint && strv_add(&run->entrypoint, entrypoint) < 0))
		return out_of_memory(e);
	return 0;
}

/* K=V; or K alone, whose value is taken from here as docker does, when it has one. */
static int take_env(const struct args *a, struct client_run *run, struct err *e)
{
	if (!(run->env = strv_new()))
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
		if (strv_env_set(&run->env, joined ? joined : *env) < 0)
			return out_of_memory(e);
	}
	return 0;
}

static int take_place(const struct args *a, struct client_run *run, struct err *e)
{
	int r;

	run->cwd = args_value(a, "workdir");
	run->user = args_value(a, "user");
	run->name = args_value(a, "name");
	if ((r = check_text("--workdir", run->cwd, e)) < 0 ||
		(r = check_text("--user", run->user, e)) < 0)
		return r;
	if (run->cwd && run->cwd[0] != '/')
		return err_set(
			e, ERR_INVALID, 0, "--workdir: \"%.100s\" does not begin with /", run->cwd);
	if (run->name && !text_is_sandbox_name(run->name))
		return err_set(e, ERR_INVALID, 0,
			"--name: \"%.80s\" cannot name a container: 1 to 63 of a-z 0-9 _ . -",
			run->name);
	return 0;
}

static int take_limits(const struct args *a, struct client_run *run, struct err *e)
{
	uint64_t memory_mb = 0;
	int r;

	if ((r = args_u64(a, "memory", 4, 1u << 24, &memory_mb, e)) < 0 ||
		(r = args_u64(a, "pids", 1, 1u << 22, &run->pids, e)) < 0 ||
		(r = args_duration_ms(a, "timeout", &run->timeout_ms, e)) < 0)
		return r;
	run->memory_bytes = memory_mb << 20;
	return 0;
}

static int check_size(const struct client_run *run, struct err *e)
{
	size_t bytes = 0, count = strv_len(run->argv);

	for (char **p = run->argv; *p; p++)
		bytes += strlen(*p) + 1;
	for (char **p = run->env; *p; p++)
		bytes += strlen(*p) + 1;
	if (bytes <= AGENT_ARGS_BYTES_MAX && count <= AGENT_ARGS_MAX)
		return 0;
	return err_set(e, ERR_LIMIT, E2BIG,
		"the command and its variables are too long: %zu arguments, %zu bytes; at most %d "
		"and %u",
		count, bytes, AGENT_ARGS_MAX, AGENT_ARGS_BYTES_MAX);
}

static int take_run(const struct args *a, struct client_run *run, struct err *e)
{
	int r;

	run->stdin_open = args_on(a, "interactive");
	if ((r = take_command(a, run, e)) < 0 || (r = take_env(a, run, e)) < 0 ||
		(r = take_place(a, run, e)) < 0 || (r = take_limits(a, run, e)) < 0)
		return r;
	return check_size(run, e);
}

/* An image of the catalog counts as used by the sandbox from its first run there. */
static int note_use(
	const struct context *c, const struct sandbox *s, const char *digest, struct err *e)
{
	struct image_rows rows = {0};
	bool known = false;
	int r = catalog_sandbox_images(c->catalog, s->row.id, &rows, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < rows.len; i++)
		known = known || strcmp(rows.rows[i].digest, digest) == 0;
	image_rows_release(&rows);
	return known ? 0 : catalog_sandbox_image_add(c->catalog, s->row.id, digest, e);
}

static int pull(struct context *c, const struct sandbox *s, const struct args *a,
	char ret_digest[static REFERENCE_DIGEST_SIZE], struct err *e)
{
	struct image_pull p = {.text = a->operands[1],
		.box = s,
		.quiet = args_on(a, "quiet"),
		.progress = args_on(a, "quiet") ? PROGRESS_NONE : PROGRESS_TERMINAL};

	return image_pull(c, &p, ret_digest, e);
}

static int find_or_pull(struct context *c, const struct sandbox *s, const struct args *a,
	char ret_digest[static REFERENCE_DIGEST_SIZE], struct err *e)
{
	cleanup_image_row struct image_row row = {0};
	struct reference ref;
	int r = image_find(c, a->operands[1], &row, &ref, e);

	if (r >= 0 && (r = image_check_platform(&row, a->operands[1], e)) >= 0)
		r = note_use(c, s, row.digest, e);
	if (r >= 0)
		memcpy(ret_digest, row.digest, REFERENCE_DIGEST_SIZE);
	/* Not here, or it has gone meanwhile. */
	if (r < 0 && e->kind == ERR_NOT_FOUND && *ref.registry)
		return pull(c, s, a, ret_digest, e);
	return r;
}

static int run_on(struct context *c, const struct sandbox *s, const struct args *a,
	struct client_run *run, struct err *e)
{
	struct stream_options o = {.stdin_open = run->stdin_open,
		.timeout = args_value(a, "timeout"),
		.timeout_ms = run->timeout_ms};
	cleanup_connection struct connection con = {.fd = -1};
	char digest[REFERENCE_DIGEST_SIZE];
	int r = find_or_pull(c, s, a, digest, e);

	if (r < 0)
		return image_worker_status(r, e);
	run->image = digest;
	cleanup_json *request = context_request(c, "run");
	if (!request || client_run_encode(run, request) < 0)
		return out_of_memory(e);
	if ((r = connection_open(s, &con, e)) < 0)
		return r;
	return stream_run(&con, request, &o, e);
}

int cmd_sandbox_run(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	struct client_run run = {0};
	int r = take_run(a, &run, e);

	if (r >= 0 && (r = context_open(&c, e)) >= 0 &&
		(r = sandbox_open(&c, a->operands[0], &s, e)) >= 0 &&
		(r = sandbox_require_running(&s, e)) >= 0)
		r = run_on(&c, &s, a, &run, e);
	client_run_release(&run);
	return r;
}
