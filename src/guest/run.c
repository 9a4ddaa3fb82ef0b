/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/log.h"
#include "run-client.h"
#include "run-internal.h"
#include "run-report.h"
#include "run-start.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Frames of output that one run may send in a round. */
#define OUTPUTS_A_STEP 2

static void run_reset(struct run *r)
{
	*r = (struct run){.child = 0, .program_pidfd = -1, .cgroup_fd = -1, .deadline_ms = -1};
	r->report.fd = r->in.pipe.fd = r->out[0].pipe.fd = r->out[1].pipe.fd = -1;
}

void runs_init(struct runs *rs)
{
	for (size_t i = 0; i < RUNS_MAX; i++)
		run_reset(&rs->run[i]);
}

struct run *run_new(struct runs *rs, enum run_kind kind, uint32_t stream)
{
	struct err e;

	for (size_t i = 0; i < RUNS_MAX; i++) {
		struct run *r = &rs->run[i];

		if (r->state != RUN_FREE)
			continue;
		run_reset(r);
		r->kind = kind;
		r->state = RUN_STARTING;
		r->client = (struct run_client){.present = true, .stream = stream};
		rs->active[rs->active_len++] = r;
		return r;
	}
	(void)err_set(&e, ERR_LIMIT, EAGAIN,
		"the sandbox has %d runs and execs already, which is the limit", RUNS_MAX);
	run_send_failed(rs, stream, &e);
	return NULL;
}

static void kill_tree(struct run *r)
{
	int n = 0;

	if (r->cgroup_fd >= 0)
		n = cgroup_kill(r->cgroup_fd);
	else if (r->child > 0 && kill(r->child, SIGKILL) < 0)
		n = -errno;
	if (n < 0 && n != -ENODEV)
		log_warn("kill a run: %s", strerror(-n));
}

void run_force(struct run *r, enum agent_end how)
{
	if (r->forced || r->state == RUN_FREE || r->state == RUN_OVER)
		return;
	r->forced = true;
	r->how = how;
	r->deadline_ms = -1;
	if (r->state != RUN_DRAINING && r->state != RUN_WAITING)
		kill_tree(r);
}

void run_set_over(struct runs *rs, struct run *r)
{
	r->state = RUN_OVER;
	rs->any_over = true;
}

/* By a descriptor: it can be no other process. */
static void signal_program(const struct run *r, int signal)
{
	if (r->state == RUN_RUNNING && r->program_pidfd >= 0)
		(void)syscall(SYS_pidfd_send_signal, r->program_pidfd, signal, NULL, 0);
}

void run_signal(struct run *r, int signal)
{
	if (r->state == RUN_STARTING || r->state == RUN_WAITING)
		r->pending_signals |= 1ull << (signal - 1);
	else
		signal_program(r, signal);
}

/* What an exec left behind is the container's from now on. */
static void leave_container(struct run *r)
{
	struct container_entry *c = r->container;

	r->container = NULL;
	r->cgroup_fd = fd_close(r->cgroup_fd);
	if (!c)
		return;
	if (r->exec_number == 0)
		return container_unpin(c);
	c->helpers--;
	if (c->cgroup_fd >= 0 && cgroup_remove_exec(c->cgroup_fd, r->exec_number) < 0)
		c->leftovers = true;
	else if (c->cgroup_fd >= 0 && c->leftovers)
		c->leftovers = cgroup_sweep_execs(c->cgroup_fd);
	container_unpin(c);
}

static void reap(struct runs *rs, struct run *r, int status)
{
	r->child = 0;
	r->report.readable = true;
	while (run_report_step(rs, r))
		;
	if (r->state == RUN_STARTING || r->state == RUN_RUNNING)
		run_lost(rs, r, status);
	if (r->state == RUN_FAILED)
		run_set_over(rs, r);
	if (r->kind == RUN_PROGRAM)
		r->container->init = 0;
	else
		leave_container(r);
	rs->any_over = true;
}

bool runs_reaped(struct runs *rs, pid_t pid, int status)
{
	for (size_t i = 0; i < rs->active_len; i++) {
		if (rs->active[i]->child != pid)
			continue;
		reap(rs, rs->active[i], status);
		return true;
	}
	return false;
}

/* All was delivered. */
static void finish(struct runs *rs, struct run *r)
{
	struct container_entry *c = r->container;

	run_client_end(rs, r, &r->exit);
	run_set_over(rs, r);
	if (r->kind != RUN_PROGRAM)
		return;
	bool ran = c->is.state == AGENT_CONTAINER_RUNNING;
	c->is.state = AGENT_CONTAINER_ENDED;
	c->is.exit = r->exit;
	/* A stop of the sandbox ended it; one that took SIGTERM as a wish ended by itself. */
	if (r->stopped && r->exit.how != AGENT_END_EXITED)
		c->is.exit = (struct agent_exit){.how = AGENT_END_LOST};
	container_log_close(&c->log);
	if (!ran)
		return;
	c->is.ended_ns = (uint64_t)clock_wall_ns();
	if (!container_is_kept(c))
		return;
	container_changed(rs->containers, c);
	cleanup_buf struct buf b = {0};
	buf_init(&b, 4096);
	agent_container_encode(&b, &c->is);
	mux_send_buf(rs->mux, AGENT_ENDED, 0, &b);
}

static int step_run(struct runs *rs, struct run *r, int64_t now_ms)
{
	int progress = r->state == RUN_WAITING ? run_waiting_step(rs, r) : run_report_step(rs, r);

	if (r->deadline_ms >= 0 && r->deadline_ms <= now_ms)
		run_force(r, AGENT_END_TIMEOUT);
	if (r->state == RUN_RUNNING)
		progress |= run_stdin_step(rs, r);
	if (r->state == RUN_RUNNING || r->state == RUN_DRAINING)
		for (int i = 0; i < OUTPUTS_A_STEP; i++)
			progress |= run_output_step(rs, r, 0) | run_output_step(rs, r, 1);
	if (r->state == RUN_DRAINING && r->out[0].ended && r->out[1].ended) {
		finish(rs, r);
		progress = 1;
	}
	return progress;
}

int runs_step(struct runs *rs)
{
	int64_t now_ms = runs_deadline_ms(rs) < 0 ? 0 : clock_mono_ms();
	int progress = 0;

	for (size_t i = 0; i < rs->active_len; i++) {
		struct run *r = rs->active[(rs->turn + i) % rs->active_len];

		if (r->state != RUN_OVER)
			progress |= step_run(rs, r, now_ms);
	}
	if (rs->active_len > 0)
		rs->turn = (rs->turn + 1) % rs->active_len;
	return progress;
}

/* The container has no process any more: what is kept of it, if anything, is on the disk. */
static void clean_container(struct runs *rs, struct container_entry *c)
{
	uint32_t remover = c->remover;
	bool ran = c->is.ended_ns > 0;
	struct agent_reply done = {0};

	c->run = NULL;
	if (container_is_kept(c) && ran && !c->removing)
		container_processes_gone(rs->containers, c);
	else
		containers_remove(rs->containers, c);
	if (remover)
		mux_reply(rs->mux, AGENT_REPLY, remover, &done);
	container_unpin(c);
}

static void clean(struct runs *rs, struct run *r)
{
	run_streams_close(rs, r);
	loop_unwatch(rs->loop, &r->report);
	r->program_pidfd = fd_close(r->program_pidfd);
	if (r->request)
		agent_exec_release(r->request);
	free(r->request);
	if (r->kind != RUN_PROGRAM)
		leave_container(r);
	else if (r->container)
		clean_container(rs, r->container);
	run_reset(r);
}

/* The parents of execs leave a container's cgroup a moment after its own processes. */
static bool is_done(const struct run *r)
{
	return r->state == RUN_OVER && r->child == 0 &&
	       !(r->kind == RUN_PROGRAM && r->container && r->container->helpers > 0);
}

void runs_clean(struct runs *rs)
{
	size_t kept = 0;

	if (!rs->any_over)
		return;
	rs->any_over = false;
	for (size_t i = 0; i < rs->active_len; i++) {
		struct run *r = rs->active[i];

		if (is_done(r))
			clean(rs, r);
		else
			rs->active[kept++] = r;
	}
	rs->active_len = kept;
}

int64_t runs_deadline_ms(const struct runs *rs)
{
	int64_t first = -1;

	for (size_t i = 0; i < rs->active_len; i++) {
		int64_t deadline = rs->active[i]->deadline_ms;

		if (deadline >= 0 && (first < 0 || deadline < first))
			first = deadline;
	}
	return first;
}

void runs_forget_clients(struct runs *rs)
{
	for (size_t i = 0; i < rs->active_len; i++) {
		struct run *r = rs->active[i];
		bool stays = r->flags & AGENT_TTY ||
			     (r->kind == RUN_PROGRAM && container_is_kept(r->container));

		r->client.present = false;
		if (r->kind == RUN_COPY)
			run_force(r, AGENT_END_KILLED);
		if (stays)
			continue;
		r->in.eof = true;
		buf_reset(&r->in.data);
	}
}

size_t runs_running(void *ctx, uint32_t serial, pid_t *ret, size_t max, bool *ret_starting)
{
	const struct runs *rs = ctx;
	size_t n = 0;

	*ret_starting = false;
	for (size_t i = 0; i < rs->active_len; i++) {
		const struct run *r = rs->active[i];

		if (r->kind != RUN_PROGRAM || r->child <= 0 ||
			r->container->mounts_serial >= serial)
			continue;
		if (r->state == RUN_STARTING)
			*ret_starting = true;
		else if (r->state == RUN_RUNNING && n < max)
			ret[n++] = r->child;
	}
	return n;
}

void runs_stop(struct runs *rs)
{
	for (size_t i = 0; i < rs->active_len; i++) {
		struct run *r = rs->active[i];

		r->stopped = r->state == RUN_STARTING || r->state == RUN_RUNNING;
		run_signal(r, SIGTERM);
	}
}

void runs_kill_all(struct runs *rs)
{
	for (size_t i = 0; i < rs->active_len; i++)
		run_force(rs->active[i], AGENT_END_KILLED);
}

bool runs_any(const struct runs *rs)
{
	return rs->active_len > 0;
}
