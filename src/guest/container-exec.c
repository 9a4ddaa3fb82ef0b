/* SPDX-License-Identifier: Apache-2.0 */
#include "container.h"

#include "../base/fd.h"

#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* What init lives in (container.c). The pid namespace is for children only. */
#define NAMESPACES (CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP)

static int join(const struct container_exec *x, int init, struct err *e)
{
	int r;

	r = container_begin_child("exec", &x->program, x->stdio, x->report_fd, init);
	if (r < 0)
		return err_errno(e, -r, "first process of the exec");
	/* Also makes the container's root this process's root and working directory. */
	if (setns(CONTAINER_EXTRA_FD, NAMESPACES) < 0)
		return errno == ESRCH
			       ? err_set(e, ERR_WRONG_STATE, ESRCH, "the container has ended")
			       : err_errno(e, errno, "enter the container");
	(void)fd_close(CONTAINER_EXTRA_FD);
	return 0;
}

/* What the program leaves behind becomes init's, so there is nothing else to wait for. */
static _Noreturn void exec_main(const struct container_exec *x, int init)
{
	struct err e;
	int status;

	if (join(x, init, &e) < 0) {
		container_report_error(CONTAINER_REPORT_FD, &e);
		_exit(1);
	}
	pid_t program = container_start_program(&x->program, false);
	while (waitpid(program, &status, 0) < 0)
		if (errno != EINTR)
			_exit(1);
	container_report_ended(CONTAINER_REPORT_FD, status);
	_exit(0);
}

pid_t container_exec_start(const struct container_exec *x, struct err *e)
{
	struct clone_args args = {.flags = CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)x->cgroup_fd};
	/* Opened here: while its parent does not wait for it, the number is nobody else's. */
	cleanup_fd int init = (int)syscall(SYS_pidfd_open, x->init, 0);

	if (init < 0)
		return err_set(e, ERR_WRONG_STATE, ESRCH, "the container has ended");
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		exec_main(x, init);
	return pid < 0 ? err_errno(e, errno, "start the exec") : pid;
}
