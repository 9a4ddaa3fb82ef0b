/* SPDX-License-Identifier: Apache-2.0 */
#include "run-start.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/strv.h"
#include "boot.h"
#include "container.h"
#include "run-internal.h"
#include "run-report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOSTNAME_MAX 64

void run_send_failed(struct runs *rs, uint32_t stream, const struct err *e)
{
	struct agent_reply m = {.status = (uint32_t)-err_code(e), .fail = AGENT_FAIL_SETUP};

	(void)snprintf(m.text, sizeof(m.text), "%.*s", AGENT_TEXT_MAX - 1, e->what);
	mux_reply(rs->mux, AGENT_RUN_FAILED, stream, &m);
}

static void set_deadline(struct run *r, uint64_t timeout_ms)
{
	if (timeout_ms > 0 && timeout_ms <= INT64_MAX / 2)
		r->deadline_ms = clock_mono_ms() + (int64_t)timeout_ms;
}

int run_ends_open(struct runs *rs, struct run *r, struct run_ends *ret, struct err *e)
{
	*ret = (struct run_ends){.stdio = {-1, -1, -1}, .report = {-1, -1}};
	int n = run_streams_open(rs, r, ret->stdio, e);

	return n < 0 ? n : container_report_pair(ret->report, e);
}

int run_ends_close(struct runs *rs, struct run *r, struct run_ends *ends, int pid, struct err *e)
{
	for (size_t i = 0; i < 3; i++)
		(void)fd_close(ends->stdio[i]);
	(void)fd_close(ends->report[1]);
	if (pid < 0) {
		(void)fd_close(ends->report[0]);
		return pid;
	}
	r->child = pid;
	return loop_watch(rs->loop, &r->report, ends->report[0], WATCH_READ, e);
}

static int start_child(struct runs *rs, struct run *r, const struct agent_run *m, struct err *e)
{
	char image_dir[128], layer[CONTAINER_LAYER_SIZE];
	struct container_entry *c = r->container;
	struct run_ends ends;
	int n = run_ends_open(rs, r, &ends, e);

	if (n >= 0) {
		(void)snprintf(image_dir, sizeof(image_dir), PATH_IMAGES "/%s", m->image);
		container_layer(c, layer);
		struct container spec = {.program = {.user = c->user,
						 .cwd = c->cwd,
						 .argv = m->argv,
						 .env = c->env,
						 .terminal = m->flags & AGENT_TTY,
						 .size = m->size},
			.image_dir = image_dir,
			.disk_dir = layer,
			.hostname = *m->hostname ? m->hostname : rs->hostname,
			.machine_id = rs->machine_id,
			.mounts = rs->mounts,
			.cgroup_fd = c->cgroup_fd,
			.stdio = {ends.stdio[0], ends.stdio[1], ends.stdio[2]},
			.report_fd = ends.report[1]};
		c->mounts_serial = rs->mounts->serial;
		n = container_start(&spec, e);
	}
	n = run_ends_close(rs, r, &ends, n, e);
	c->init = r->child;
	return n;
}

/* Cgroup, folders, pipes and the child. What was made before a failure is left to runs_clean(). */
static int start(struct runs *rs, struct run *r, const struct agent_run *m, struct err *e)
{
	struct cgroup_limits limits = {
		.memory_bytes = m->memory_bytes, .pids = m->pids, .cpu_milli = m->cpu_milli};
	struct container_entry *c = r->container;
	int n;

	c->cgroup_fd = cgroup_create(rs->cgroups, m->id, &limits, e);
	if (c->cgroup_fd < 0)
		return c->cgroup_fd;
	r->cgroup_fd = c->cgroup_fd;
	n = keeper_take(rs->keeper, rs->disk->runs_fd, c->folder, e);
	if (n >= 0 && m->flags & AGENT_KEEP)
		n = container_keep(rs->containers, c, e);
	return n < 0 ? n : start_child(rs, r, m, e);
}

static int check(const struct agent_run *m, struct err *e)
{
	if (m->memory_bytes > 0 && m->memory_bytes < CGROUP_MEMORY_MIN)
		return err_set(e, ERR_INVALID, EINVAL,
			"the memory limit is below the minimum of %u MB", CGROUP_MEMORY_MIN >> 20);
	if (m->cpu_milli > 0 && m->cpu_milli < CGROUP_CPU_MIN)
		return err_set(
			e, ERR_INVALID, EINVAL, "the CPU limit is below the minimum of 0.01 CPUs");
	if (strlen(m->hostname) > HOSTNAME_MAX)
		return err_set(e, ERR_INVALID, EINVAL, "the hostname has more than %d bytes",
			HOSTNAME_MAX);
	return 0;
}

void runs_start(struct runs *rs, uint32_t stream, struct agent_run *m)
{
	struct container_entry *c;
	struct err e;

	if (check(m, &e) < 0)
		return run_send_failed(rs, stream, &e);
	struct run *r = run_new(rs, RUN_PROGRAM, stream);
	if (!r)
		return;
	r->flags = m->flags & (AGENT_STDIN_OPEN | AGENT_TTY);
	r->pending_detach = m->flags & AGENT_KEEP;
	set_deadline(r, m->timeout_ms);
	if (containers_add(rs->containers, m, &c, &e) < 0)
		return run_fail(rs, r, &e);
	r->container = c;
	container_pin(c);
	c->run = r;
	if (start(rs, r, m, &e) < 0) {
		run_fail(rs, r, &e);
		if (r->child > 0)
			(void)!cgroup_kill(r->cgroup_fd);
	}
}

/* The container's environment with the request's over it. */
static char **merged_env(char *const *base, char *const *over)
{
	cleanup_strv char **env = strv_new();
	int n = env ? 0 : -ENOMEM;

	for (; n == 0 && base && *base; base++)
		n = strv_add(&env, *base);
	for (; n == 0 && over && *over; over++)
		n = strv_env_set(&env, *over);
	return n < 0 ? NULL : strv_take(&env);
}

static int start_exec_child(struct runs *rs, struct run *r, struct agent_exec *m, struct err *e)
{
	struct container_entry *c = r->container;
	cleanup_strv char **env = merged_env(c->env, m->env);
	struct run_ends ends;
	int n = env ? run_ends_open(rs, r, &ends, e) : err_errno(e, ENOMEM, "start the exec");

	if (!env)
		return n;
	if (n >= 0) {
		struct container_exec spec = {.program = {.user = *m->user ? m->user : c->user,
						      .cwd = *m->cwd ? m->cwd : c->cwd,
						      .argv = m->argv,
						      .env = env,
						      .terminal = m->flags & AGENT_TTY,
						      .size = m->size},
			.init = c->init,
			.cgroup_fd = r->cgroup_fd,
			.stdio = {ends.stdio[0], ends.stdio[1], ends.stdio[2]},
			.report_fd = ends.report[1]};
		n = container_exec_start(&spec, e);
	}
	return run_ends_close(rs, r, &ends, n, e);
}

static int start_exec(struct runs *rs, struct run *r, struct agent_exec *m, struct err *e)
{
	struct container_entry *c = r->container;

	r->state = RUN_STARTING;
	r->cgroup_fd = cgroup_create_exec(c->cgroup_fd, ++c->execs, e);
	if (r->cgroup_fd < 0)
		return r->cgroup_fd;
	r->exec_number = c->execs;
	c->helpers++;
	r->oom_kills = cgroup_oom_kills(c->cgroup_fd);
	return start_exec_child(rs, r, m, e);
}

/* It runs and has not begun to end. */
static bool is_enterable(const struct container_entry *c)
{
	return c->is.state == AGENT_CONTAINER_RUNNING && c->run && c->run->state == RUN_RUNNING &&
	       !c->run->forced && c->init > 0;
}

static void begin_exec(struct runs *rs, struct run *r, struct agent_exec *m)
{
	struct err e;

	if (is_enterable(r->container)) {
		if (start_exec(rs, r, m, &e) == 0)
			return;
	} else {
		(void)err_set(&e, ERR_WRONG_STATE, ESRCH, "container %s has ended",
			container_label(r->container));
	}
	run_fail(rs, r, &e);
	if (r->child > 0)
		(void)!cgroup_kill(r->cgroup_fd);
}

static void exec_later(struct runs *rs, struct run *r, struct agent_exec *m)
{
	struct err e;

	r->request = malloc(sizeof(*r->request));
	if (!r->request) {
		(void)err_errno(&e, ENOMEM, "start the exec");
		return run_fail(rs, r, &e);
	}
	*r->request = *m;
	*m = (struct agent_exec){0};
	r->state = RUN_WAITING;
}

void runs_exec(struct runs *rs, uint32_t stream, struct agent_exec *m)
{
	struct err e;
	struct container_entry *c = containers_find(rs->containers, m->container, &e);

	if (!c)
		return run_send_failed(rs, stream, &e);
	struct run *r = run_new(rs, RUN_EXEC, stream);
	if (!r)
		return;
	r->flags = m->flags & (AGENT_STDIN_OPEN | AGENT_TTY);
	r->container = c;
	container_pin(c);
	set_deadline(r, m->timeout_ms);
	if (c->is.state == AGENT_CONTAINER_STARTING)
		exec_later(rs, r, m);
	else
		begin_exec(rs, r, m);
}

int run_waiting_step(struct runs *rs, struct run *r)
{
	struct agent_exec *m = r->request;

	if (r->forced) {
		run_lost(rs, r, 0);
		return 1;
	}
	if (r->container->is.state == AGENT_CONTAINER_STARTING && !r->container->removed)
		return 0;
	r->state = RUN_STARTING;
	begin_exec(rs, r, m);
	return 1;
}
