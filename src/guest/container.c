/* SPDX-License-Identifier: Apache-2.0 */
#include "container.h"

#include "../base/fd.h"
#include "../base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define REPORT_FD 3 /* in init, after 0 to 2 */

static void report(enum container_event event, int value, const struct agent_reply *reply)
{
	struct container_report m = {.event = event, .value = value};

	if (reply)
		m.reply = *reply;
	(void)!write(REPORT_FD, &m, sizeof(m));
}

static _Noreturn void fail(const struct err *e)
{
	struct agent_reply reply = {.status = (uint32_t)-err_code(e), .fail = AGENT_FAIL_SETUP};

	(void)snprintf(reply.text, sizeof(reply.text), "%.*s", AGENT_TEXT_MAX - 1, e->what);
	report(CONTAINER_FAILED, 0, &reply);
	_exit(1);
}

/* From here on the kernel may kill it for lack of memory, as all of the container. */
static int allow_oom_kill(void)
{
	cleanup_fd int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_write_all(fd, "0", 1);
}

/* 0 to 2 and the report pipe, and nothing else of the agent's. */
static int take_descriptors(const struct container *c)
{
	int from[4] = {c->stdio[0], c->stdio[1], c->stdio[2], c->report_fd};

	/* Out of the way first: one of them may be among the numbers that are to be taken. */
	for (int i = 0; i < 4; i++) {
		from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 10);
		if (from[i] < 0)
			return -errno;
	}
	for (int i = 0; i < 3; i++)
		if (dup2(from[i], i) < 0)
			return -errno;
	if (dup3(from[3], REPORT_FD, O_CLOEXEC) < 0)
		return -errno;
	return close_range(REPORT_FD + 1, ~0u, 0) < 0 ? -errno : 0;
}

/* As the first process of the pid namespace: until the program has ended. */
static _Noreturn void reap_until(pid_t program)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, 0);

		if (pid == program) {
			/* All others first: when the end is reported, nobody writes any more. */
			(void)kill(-1, SIGKILL);
			while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
				;
			report(CONTAINER_ENDED, status, NULL);
			_exit(0);
		}
		if (pid < 0 && errno != EINTR)
			_exit(1);
	}
}

/* All up to the program: every stage, in order. */
static struct program *init_prepare(const struct container *c, struct err *e)
{
	int workspace, r;

	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)prctl(PR_SET_NAME, "init");
	r = take_descriptors(c);
	if (r == 0)
		r = allow_oom_kill();
	/* A cgroup namespace's root is where its maker is: in the run's group by now. */
	if (r == 0 && unshare(CLONE_NEWCGROUP) < 0)
		r = -errno;
	if (r < 0) {
		(void)err_errno(e, -r, "first process of the container");
		return NULL;
	}
	if (container_enter_root(c, &workspace, e) < 0 || container_mount(c, workspace, e) < 0)
		return NULL;
	return program_prepare(c, e);
}

static _Noreturn void init_main(const struct container *c)
{
	static struct agent_reply exec_error;
	struct err e;
	struct program *program = init_prepare(c, &e);

	if (!program)
		fail(&e);
	/* The child borrows this memory until it has executed the program or has ended. */
	pid_t pid = vfork();
	if (pid == 0) {
		program_exec(program, &exec_error);
		_exit(1);
	}
	if (pid < 0) {
		(void)err_errno(&e, errno, "start a process");
		fail(&e);
	}
	if (exec_error.fail != AGENT_FAIL_NONE) {
		report(CONTAINER_FAILED, 0, &exec_error);
		_exit(1);
	}
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	report(CONTAINER_STARTED, pidfd, NULL);
	/* Else the program could not close its own streams, seen from outside. */
	(void)close_range(0, 2, 0);
	reap_until(pid);
}

pid_t container_start(const struct container *c, struct err *e)
{
	struct clone_args args = {.flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS |
					   CLONE_NEWIPC | CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)c->cgroup_fd};
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

	if (pid == 0)
		init_main(c);
	return pid < 0 ? err_errno(e, errno, "start the container") : pid;
}
