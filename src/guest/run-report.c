/* SPDX-License-Identifier: Apache-2.0 */
#include "run-report.h"

#include "../base/fd.h"
#include "../base/log.h"
#include "run-client.h"
#include "run-internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

/* As a shell names the end by SIGKILL. */
#define CODE_KILLED (128u + SIGKILL)

static void deliver_pending(struct run *r)
{
	for (int signal = 1; r->pending_signals && signal <= 64; signal++)
		if (r->pending_signals & 1ull << (signal - 1))
			run_signal(r, signal);
	r->pending_signals = 0;
}

/* It never ran. An ATTACH that waits for it is told what a shell would say. */
static void on_failed(struct runs *rs, struct run *r, const struct agent_reply *reply)
{
	r->exit = (struct agent_exit){.how = AGENT_END_EXITED,
		.code = reply->fail == AGENT_FAIL_NOT_FOUND  ? 127
			: reply->fail == AGENT_FAIL_NOT_EXEC ? 126
							     : 125};
	if (r->client.attached)
		run_client_end(rs, r, &r->exit);
	else if (r->client.present)
		mux_reply(rs->mux, AGENT_RUN_FAILED, r->client.stream, reply);
	r->client.present = false;
	r->state = RUN_FAILED;
	if (r->kind == RUN_PROGRAM && r->container) {
		r->container->is.state = AGENT_CONTAINER_ENDED;
		r->container->is.exit = r->exit;
	}
	if (r->child == 0)
		run_set_over(rs, r);
}

void run_fail(struct runs *rs, struct run *r, const struct err *e)
{
	struct agent_reply m = {.status = (uint32_t)-err_code(e), .fail = AGENT_FAIL_SETUP};

	(void)snprintf(m.text, sizeof(m.text), "%.*s", AGENT_TEXT_MAX - 1, e->what);
	on_failed(rs, r, &m);
}

static bool had_oom_kill(const struct run *r)
{
	return r->cgroup_fd >= 0 && r->container &&
	       cgroup_oom_kills(r->container->cgroup_fd) > r->oom_kills;
}

static struct agent_exit exit_of(const struct run *r)
{
	struct agent_exit m = {.how = AGENT_END_SIGNALED, .code = SIGKILL};
	bool by_itself = r->has_status && WIFEXITED(r->status);

	if (by_itself) {
		m.how = AGENT_END_EXITED;
		m.code = (uint32_t)WEXITSTATUS(r->status);
	} else if (WIFSIGNALED(r->status)) {
		m.code = (uint32_t)WTERMSIG(r->status);
	}
	if (r->forced && !by_itself)
		m.how = r->how;
	m.oom = (by_itself ? m.code == CODE_KILLED : m.code == SIGKILL && !r->forced) &&
		!r->killed && had_oom_kill(r);
	return m;
}

/* No process is left that could write: only what the pipes hold is still to come. */
static void begin_drain(struct run *r)
{
	r->exit = exit_of(r);
	r->state = RUN_DRAINING;
	r->deadline_ms = -1;
	run_streams_drain(r);
}

static void on_started(struct runs *rs, struct run *r, struct container_started *fds)
{
	struct err e;

	r->state = RUN_RUNNING;
	r->program_pidfd = fd_take(&fds->program);
	if (r->flags & AGENT_TTY && run_streams_terminal(rs, r, fd_take(&fds->terminal), &e) < 0)
		log_warn("terminal of a run: %s", e.what);
	if (r->kind == RUN_PROGRAM) {
		r->container->is.state = AGENT_CONTAINER_RUNNING;
		container_changed(rs->containers, r->container);
	}
	if (r->client.present && !r->client.attached)
		mux_send(rs->mux, AGENT_RUN_STARTED, r->client.stream, NULL, 0);
	deliver_pending(r);
	if (r->pending_detach)
		run_detach(rs, r);
}

static void on_report(
	struct runs *rs, struct run *r, struct container_report *m, struct container_started *fds)
{
	switch ((enum container_event)m->event) {
	case CONTAINER_FAILED:
		if (r->state == RUN_STARTING)
			on_failed(rs, r, &m->reply);
		return;
	case CONTAINER_STARTED:
		if (r->state == RUN_STARTING)
			on_started(rs, r, fds);
		return;
	case CONTAINER_ENDED:
		if (r->state != RUN_RUNNING)
			return;
		r->has_status = true;
		r->status = m->value;
		begin_drain(r);
		return;
	}
}

int run_report_step(struct runs *rs, struct run *r)
{
	struct container_report m;
	struct container_started fds;

	if (!r->report.readable)
		return 0;
	int n = container_report_receive(r->report.fd, &m, &fds);
	if (n > 0)
		on_report(rs, r, &m, &fds);
	else
		r->report.readable = false;
	(void)fd_close(fds.program);
	(void)fd_close(fds.terminal);
	return n > 0;
}

/* The child ended without having reported what became of the program: somebody killed it. */
void run_lost(struct runs *rs, struct run *r, int status)
{
	struct err e;

	r->status = status;
	if (r->state == RUN_RUNNING || r->forced)
		return begin_drain(r);
	(void)err_set(&e, ERR_IO, EIO, "the container ended while it was set up%s",
		had_oom_kill(r) ? ": out of memory" : "");
	run_fail(rs, r, &e);
}
