/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/log.h"
#include "boot.h"
#include "container.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Frames of output that one run may send in a round. */
#define OUTPUTS_A_STEP 2

static void run_reset(struct run *r)
{
	*r = (struct run){.program_pidfd = -1, .cgroup_fd = -1, .deadline_ms = -1};
	r->report.fd = r->in.pipe.fd = r->out[0].pipe.fd = r->out[1].pipe.fd = -1;
}

void runs_init(struct runs *rs)
{
	for (size_t i = 0; i < RUNS_MAX; i++)
		run_reset(&rs->run[i]);
}

static struct run *find_run(struct runs *rs, uint32_t stream)
{
	for (size_t i = 0; i < RUNS_MAX; i++) {
		struct run *r = &rs->run[i];

		if (r->state != RUN_FREE && !r->orphan && r->stream == stream)
			return r;
	}
	return NULL;
}

static struct run *find_free(struct runs *rs)
{
	for (size_t i = 0; i < RUNS_MAX; i++)
		if (rs->run[i].state == RUN_FREE)
			return &rs->run[i];
	return NULL;
}

static void send_failed(struct runs *rs, uint32_t stream, const struct err *e)
{
	struct agent_reply m = {.status = (uint32_t)-err_code(e), .fail = AGENT_FAIL_SETUP};

	(void)snprintf(m.text, sizeof(m.text), "%.*s", AGENT_TEXT_MAX - 1, e->what);
	mux_reply(rs->mux, AGENT_RUN_FAILED, stream, &m);
}

static bool is_id(const char *s)
{
	return strlen(s) == RUN_ID_SIZE - 1 &&
	       strspn(s, "0123456789abcdefghijklmnopqrstuvwxyz") == RUN_ID_SIZE - 1;
}

/* Cgroup, folders, pipes and the child. What was made before a failure is left to runs_clean(). */
static int start(struct runs *rs, struct run *r, struct agent_run *m, struct err *e)
{
	struct cgroup_limits limits = {.memory_bytes = m->memory_bytes, .pids = m->pids};
	char image_dir[128], disk_dir[64];
	int child[3] = {-1, -1, -1};
	int report[2] = {-1, -1};
	int n;

	r->cgroup_fd = cgroup_create(rs->cgroups, m->id, &limits, e);
	if (r->cgroup_fd < 0)
		return r->cgroup_fd;
	n = keeper_take(rs->keeper, rs->disk->runs_fd, r->folder, e);
	if (n < 0)
		return n;
	(void)snprintf(image_dir, sizeof(image_dir), PATH_IMAGES "/%s", m->image);
	(void)snprintf(disk_dir, sizeof(disk_dir), PATH_DISK "/runs/%s", r->folder);
	n = run_streams_open(rs, r, m->flags & AGENT_STDIN_OPEN, child, e);
	if (n >= 0)
		n = container_report_pair(report, e);
	if (n >= 0) {
		struct container c = {.program = {.user = m->user,
					      .cwd = m->cwd,
					      .argv = m->argv,
					      .env = m->env,
					      .terminal = m->flags & AGENT_TTY,
					      .size = m->size},
			.image_dir = image_dir,
			.disk_dir = disk_dir,
			.hostname = *m->hostname ? m->hostname : rs->hostname,
			.machine_id = rs->machine_id,
			.cgroup_fd = r->cgroup_fd,
			.stdio = {child[0], child[1], child[2]},
			.report_fd = report[1]};
		n = container_start(&c, e);
		r->init = n < 0 ? 0 : n;
	}
	for (size_t i = 0; i < 3; i++)
		(void)fd_close(child[i]);
	(void)fd_close(report[1]);
	if (n >= 0)
		return loop_watch(rs->loop, &r->report, report[0], WATCH_READ, e);
	(void)fd_close(report[0]);
	return n;
}

static int check(struct runs *rs, const struct agent_run *m, struct err *e)
{
	if (!is_id(m->id))
		return err_set(e, ERR_INVALID, EINVAL, "not the id of a run");
	if (m->memory_bytes > 0 && m->memory_bytes < CGROUP_MEMORY_MIN)
		return err_set(e, ERR_INVALID, EINVAL,
			"the memory limit is below the minimum of %u MB", CGROUP_MEMORY_MIN >> 20);
	if (strlen(m->hostname) > 64)
		return err_set(e, ERR_INVALID, EINVAL, "the hostname has more than 64 bytes");
	for (size_t i = 0; i < RUNS_MAX; i++)
		if (rs->run[i].state != RUN_FREE && strcmp(rs->run[i].id, m->id) == 0)
			return err_set(e, ERR_EXISTS, EEXIST, "run %s exists", m->id);
	return 0;
}

void runs_start(struct runs *rs, uint32_t stream, struct agent_run *m)
{
	struct run *r = find_free(rs);
	struct err e;

	if (find_run(rs, stream)) {
		log_warn("a second RUN on stream %u was ignored", stream);
		return;
	}
	if (!r)
		(void)err_set(&e, ERR_LIMIT, EAGAIN,
			"the sandbox has %d runs already, which is the limit", RUNS_MAX);
	if (!r || check(rs, m, &e) < 0)
		return send_failed(rs, stream, &e);
	run_reset(r);
	r->state = RUN_STARTING;
	r->stream = stream;
	memcpy(r->id, m->id, sizeof(r->id));
	if (m->timeout_ms > 0 && m->timeout_ms <= INT64_MAX / 2)
		r->deadline_ms = clock_mono_ms() + (int64_t)m->timeout_ms;
	if (start(rs, r, m, &e) < 0) {
		send_failed(rs, stream, &e);
		r->state = r->init > 0 ? RUN_FAILED : RUN_OVER;
		if (r->init > 0)
			(void)!cgroup_kill(r->cgroup_fd);
	}
}

/* Ends the whole tree. What follows comes through runs_reaped(). */
static void force(struct run *r, enum agent_end how)
{
	if (r->forced || r->state == RUN_FREE || r->state == RUN_OVER)
		return;
	r->forced = true;
	r->how = how;
	r->deadline_ms = -1;
	if (r->state == RUN_DRAINING)
		return;
	int n = cgroup_kill(r->cgroup_fd);
	if (n < 0)
		log_warn("kill run %s: %s", r->id, strerror(-n));
}

/* By a descriptor: it can be no other process. */
static void signal_program(const struct run *r, int signal)
{
	if (r->state == RUN_RUNNING)
		(void)syscall(SYS_pidfd_send_signal, r->program_pidfd, signal, NULL, 0);
}

static void on_signal(struct run *r, int signal)
{
	if (r->state == RUN_STARTING)
		r->pending_signals |= 1ull << (signal - 1);
	else
		signal_program(r, signal);
}

static void deliver_pending(struct run *r)
{
	for (int signal = 1; r->pending_signals && signal <= 64; signal++)
		if (r->pending_signals & 1ull << (signal - 1))
			signal_program(r, signal);
	r->pending_signals = 0;
}

void runs_frame(struct runs *rs, const struct frame *f)
{
	struct run *r = find_run(rs, f->stream);
	struct cursor c;

	if (!r)
		return;
	cursor_init(&c, f->payload, f->len);
	switch (f->type) {
	case AGENT_SIGNAL: {
		uint32_t signal = cursor_u32(&c);
		if (cursor_done(&c) && signal >= 1 && signal <= 64)
			on_signal(r, (int)signal);
		return;
	}
	case AGENT_KILL:
		return force(r, AGENT_END_KILLED);
	case AGENT_STDIN:
		if (run_stdin_data(rs, r, f) < 0) {
			log_warn("run %s was sent more stdin than granted", r->id);
			force(r, AGENT_END_KILLED);
		}
		return;
	case AGENT_STDIN_EOF:
		r->in.eof = true;
		return;
	case AGENT_WINDOW:
		return run_window(r, f);
	default:
		return;
	}
}

static void on_failed(struct runs *rs, struct run *r, struct agent_reply *reply)
{
	if (!r->orphan)
		mux_reply(rs->mux, AGENT_RUN_FAILED, r->stream, reply);
	r->state = RUN_FAILED;
}

/* No process of the run is left that could write: only what the pipes hold is still to come. */
static void begin_drain(struct run *r)
{
	r->state = RUN_DRAINING;
	r->deadline_ms = -1;
	run_streams_drain(r);
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
		if (r->state != RUN_STARTING)
			return;
		r->state = RUN_RUNNING;
		r->program_pidfd = fd_take(&fds->program);
		if (!r->orphan)
			mux_send(rs->mux, AGENT_RUN_STARTED, r->stream, NULL, 0);
		deliver_pending(r);
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

static int step_report(struct runs *rs, struct run *r)
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

/* init ended without having reported what became of the program: somebody killed it. */
static void on_lost(struct runs *rs, struct run *r, int status)
{
	struct err e;

	r->status = status;
	if (r->state == RUN_RUNNING || r->forced)
		return begin_drain(r);
	(void)err_set(&e, ERR_IO, EIO, "the container ended while it was set up%s",
		cgroup_oom_killed(r->cgroup_fd) ? ": out of memory" : "");
	if (!r->orphan)
		send_failed(rs, r->stream, &e);
	r->state = RUN_OVER;
}

bool runs_reaped(struct runs *rs, pid_t pid, int status)
{
	for (size_t i = 0; i < RUNS_MAX; i++) {
		struct run *r = &rs->run[i];

		if (r->state == RUN_FREE || r->init != pid)
			continue;
		r->init = 0;
		r->report.readable = true;
		while (step_report(rs, r))
			;
		if (r->state == RUN_FAILED)
			r->state = RUN_OVER;
		else if (r->state == RUN_STARTING || r->state == RUN_RUNNING)
			on_lost(rs, r, status);
		return true;
	}
	return false;
}

static void send_exit(struct runs *rs, struct run *r)
{
	struct agent_exit m = {.how = AGENT_END_SIGNALED, .code = SIGKILL};
	cleanup_buf struct buf b = {0};
	bool by_itself = r->has_status && WIFEXITED(r->status);

	buf_init(&b, 64);
	if (by_itself) {
		m.how = AGENT_END_EXITED;
		m.code = (uint32_t)WEXITSTATUS(r->status);
	} else if (WIFSIGNALED(r->status)) {
		m.code = (uint32_t)WTERMSIG(r->status);
	}
	if (r->forced && !by_itself)
		m.how = r->how;
	m.oom = !by_itself && m.code == SIGKILL && cgroup_oom_killed(r->cgroup_fd);
	r->state = RUN_OVER;
	if (r->orphan)
		return;
	agent_exit_encode(&b, &m);
	mux_send_buf(rs->mux, AGENT_RUN_EXIT, r->stream, &b);
}

static int step_run(struct runs *rs, struct run *r)
{
	int progress = step_report(rs, r);

	if (r->deadline_ms >= 0 && clock_left_ms(r->deadline_ms) == 0)
		force(r, AGENT_END_TIMEOUT);
	if (r->state == RUN_RUNNING)
		progress |= run_stdin_step(rs, r);
	for (int i = 0; i < OUTPUTS_A_STEP; i++)
		progress |= run_output_step(rs, r, 0) | run_output_step(rs, r, 1);
	if (r->state == RUN_DRAINING && r->out[0].ended && r->out[1].ended) {
		send_exit(rs, r);
		progress = 1;
	}
	return progress;
}

int runs_step(struct runs *rs)
{
	int progress = 0;

	for (size_t i = 0; i < RUNS_MAX; i++) {
		struct run *r = &rs->run[(rs->turn + i) % RUNS_MAX];

		if (r->state != RUN_FREE && r->state != RUN_OVER)
			progress |= step_run(rs, r);
	}
	rs->turn = (rs->turn + 1) % RUNS_MAX;
	return progress;
}

static void clean(struct runs *rs, struct run *r)
{
	int n;

	run_streams_close(rs, r);
	loop_unwatch(rs->loop, &r->report);
	r->program_pidfd = fd_close(r->program_pidfd);
	r->cgroup_fd = fd_close(r->cgroup_fd);
	n = cgroup_remove(rs->cgroups, r->id);
	if (n < 0)
		log_warn("remove the control group of %s: %s", r->id, strerror(-n));
	if (*r->folder)
		keeper_remove(rs->keeper, r->folder);
	run_reset(r);
}

void runs_clean(struct runs *rs)
{
	for (size_t i = 0; i < RUNS_MAX; i++)
		if (rs->run[i].state == RUN_OVER && rs->run[i].init == 0)
			clean(rs, &rs->run[i]);
}

int64_t runs_deadline_ms(const struct runs *rs)
{
	int64_t first = -1;

	for (size_t i = 0; i < RUNS_MAX; i++) {
		const struct run *r = &rs->run[i];

		if (r->state != RUN_FREE && r->deadline_ms >= 0 &&
			(first < 0 || r->deadline_ms < first))
			first = r->deadline_ms;
	}
	return first;
}

void runs_orphan_all(struct runs *rs)
{
	for (size_t i = 0; i < RUNS_MAX; i++) {
		struct run *r = &rs->run[i];

		if (r->state == RUN_FREE)
			continue;
		r->orphan = true;
		r->in.eof = true;
		buf_reset(&r->in.data);
	}
}

void runs_signal_all(struct runs *rs, int signal)
{
	for (size_t i = 0; i < RUNS_MAX; i++)
		on_signal(&rs->run[i], signal);
}

void runs_kill_all(struct runs *rs)
{
	for (size_t i = 0; i < RUNS_MAX; i++)
		force(&rs->run[i], AGENT_END_KILLED);
}

bool runs_any(const struct runs *rs)
{
	for (size_t i = 0; i < RUNS_MAX; i++)
		if (rs->run[i].state != RUN_FREE)
			return true;
	return false;
}
