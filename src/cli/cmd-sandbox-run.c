/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include "session.h"

#include "../base/strv.h"
#include "../base/text.h"

#include <errno.h>
#include <string.h>

#define CPUS_MAX 1024

static int out_of_memory(struct err *e)
{
	return err_set(e, ERR_IO, ENOMEM, "out of memory");
}

static int take_command(const struct args *a, struct client_run *run, struct err *e)
{
	const char *entrypoint = args_value(a, "entrypoint");
	int r = session_argv(a, 2, &run->argv, e);

	if (r < 0 || !entrypoint)
		return r;
	run->entrypoint = strv_new();
	if (!run->entrypoint || (*entrypoint && strv_add(&run->entrypoint, entrypoint) < 0))
		return out_of_memory(e);
	return 0;
}

/* As the agent wants it: proto/agent.h. */
static bool is_container_name(const char *s)
{
	static const char first[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	static const char rest[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

	return *s && strchr(first, *s) && s[strspn(s, rest)] == '\0' && strlen(s) <= 63;
}

static int take_name(const struct args *a, struct client_run *run, struct err *e)
{
	run->name = args_value(a, "name");
	if (!run->name || is_container_name(run->name))
		return 0;
	return err_set(e, ERR_INVALID, 0,
		"--name: \"%.80s\" cannot name a container: 1 to 63 of a-z A-Z 0-9 _ . -, the "
		"first "
		"a letter or digit",
		run->name);
}

/* A decimal number of CPUs, in thousandths; more digits than that are none. */
static int parse_cpus(const char *s, uint64_t *ret_milli)
{
	char whole[16], fraction[4] = "000";
	size_t len = strcspn(s, "."), digits = s[len] ? strlen(s + len + 1) : 0;
	uint64_t n = 0, milli = 0;

	if (len >= sizeof(whole) || digits > 3 || (s[len] && digits == 0) || (len == 0 && !digits))
		return -EINVAL;
	memcpy(whole, s, len);
	whole[len] = '\0';
	memcpy(fraction, s + len + (s[len] != '\0'), digits);
	if ((len > 0 && text_parse_u64(whole, 0, CPUS_MAX, &n) < 0) ||
		text_parse_u64(fraction, 0, 999, &milli) < 0)
		return -EINVAL;
	*ret_milli = n * 1000 + milli;
	return *ret_milli > 0 && *ret_milli <= CPUS_MAX * 1000 ? 0 : -EINVAL;
}

static int take_limits(const struct args *a, struct client_run *run, struct err *e)
{
	const char *cpus = args_value(a, "cpus");
	uint64_t memory_mb = 0;
	int r;

	if ((r = args_u64(a, "memory", 4, 1u << 24, &memory_mb, e)) < 0 ||
		(r = args_u64(a, "pids", 1, 1u << 22, &run->pids, e)) < 0)
		return r;
	if (cpus && parse_cpus(cpus, &run->cpu_milli) < 0)
		return err_set(e, ERR_USAGE, 0,
			"--cpus: \"%.60s\" is not a number from 0.001 to %d", cpus, CPUS_MAX);
	run->memory_bytes = memory_mb << 20;
	return 0;
}

static int take_run(
	const struct args *a, struct client_run *run, struct stream_options *o, struct err *e)
{
	int r;

	o->detached = run->detach = args_on(a, "detach");
	if ((r = session_streams(a, o, e)) < 0)
		return r;
	run->stdin_open = o->stdin_open;
	run->tty = o->tty;
	run->timeout_ms = o->timeout_ms;
	/* Nobody waits for it here: nothing is forwarded, and the guest keeps the time. */
	if (o->detached) {
		o->stdin_open = false;
		o->timeout_ms = 0;
	}
	if ((r = take_command(a, run, e)) < 0 || (r = session_env(a, o->tty, &run->env, e)) < 0 ||
		(r = session_place(a, &run->cwd, &run->user, e)) < 0 ||
		(r = take_name(a, run, e)) < 0 || (r = take_limits(a, run, e)) < 0)
		return r;
	return session_check_size(run->argv, run->env, e);
}

int cmd_sandbox_run(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	struct stream_options o = {.verb = "run"};
	struct client_run run = {0};
	int r = take_run(a, &run, &o, e);

	if (r >= 0 && (r = session_open(a->operands[0], &c, &s, e)) >= 0)
		r = session_run_image(&c, &s, a->operands[1], args_on(a, "quiet"), &run, &o, e);
	client_run_release(&run);
	return r;
}
