/* SPDX-License-Identifier: Apache-2.0 */
#include "container.h"

#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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
			container_report_ended(CONTAINER_REPORT_FD, status);
			_exit(0);
		}
		if (pid < 0 && errno != EINTR)
			_exit(1);
	}
}

/* All up to the program: every stage, in order. */
static int prepare(const struct container *c, struct err *e)
{
	int workspace, r;

	r = container_begin_child("init", &c->program, c->stdio, c->report_fd, -1);
	/* A cgroup namespace's root is where its maker is: in the run's group by now. */
	if (r == 0 && unshare(CLONE_NEWCGROUP) < 0)
		r = -errno;
	if (r < 0)
		return err_errno(e, -r, "first process of the container");
	r = container_enter_root(c, &workspace, e);
	return r < 0 ? r : container_mount(c, workspace, e);
}

static _Noreturn void init_main(const struct container *c)
{
	struct err e;

	if (prepare(c, &e) < 0) {
		container_report_error(CONTAINER_REPORT_FD, &e);
		_exit(1);
	}
	reap_until(container_start_program(&c->program, true));
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
