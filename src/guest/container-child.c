/* SPDX-License-Identifier: Apache-2.0 */
/* What init and the parent of an exec have in common. */
#include "container.h"

#include "../base/fd.h"
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FDS_MAX 5
/* Above all that are taken, so that no copy is overwritten before it was moved. */
#define FDS_ASIDE 10

int container_set_oom_score(const char *score)
{
	cleanup_fd int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_write_all(fd, score, strlen(score));
}

int container_take_descriptors(const int stdio[static 3], int report_fd, int extra)
{
	int from[FDS_MAX] = {stdio[0], stdio[1], stdio[2], report_fd, extra};
	int last = extra < 0 ? CONTAINER_REPORT_FD : CONTAINER_EXTRA_FD;

	/* Out of the way first: one of them may be among the numbers that are to be taken. */
	for (int i = 0; i <= last; i++) {
		if (from[i] < 0)
			continue;
		from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, FDS_ASIDE);
		if (from[i] < 0)
			return -errno;
	}
	for (int i = 0; i <= last; i++)
		if (from[i] >= 0 && dup3(from[i], i, i >= CONTAINER_REPORT_FD ? O_CLOEXEC : 0) < 0)
			return -errno;
	return close_range((unsigned)last + 1, ~0u, 0) < 0 ? -errno : 0;
}

int container_begin_child(const char *name, const struct program_spec *s, const int stdio[static 3],
	int report_fd, int extra)
{
	static const int none[3] = {-1, -1, -1};

	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)prctl(PR_SET_NAME, name);
	int r = container_take_descriptors(s->terminal ? none : stdio, report_fd, extra);
	return r < 0 ? r : container_set_oom_score(CONTAINER_OOM_LAST);
}

static _Noreturn void fail(const struct err *e)
{
	container_report_error(CONTAINER_REPORT_FD, e);
	_exit(1);
}

/* /dev/console is what programs look for that write to "the" terminal; docker has it so. */
static int show_console(const struct terminal *t, struct err *e)
{
	char pts[32];

	(void)snprintf(pts, sizeof(pts), "/dev/pts/%d", t->number);
	cleanup_fd int fd = open("/dev/console", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || mount(pts, "/dev/console", NULL, MS_BIND, NULL) < 0)
		return err_errno(e, errno, "/dev/console");
	return 0;
}

static int open_terminal(const struct program_spec *s, const struct program *p, bool console,
	struct terminal *t, struct err *e)
{
	if (!s->terminal)
		return 0;
	int r = terminal_open(&s->size, program_uid(p), t, e);
	return r == 0 && console ? show_console(t, e) : r;
}

static void report_started(pid_t pid, const struct terminal *t)
{
	struct container_started started = {
		.program = (int)syscall(SYS_pidfd_open, pid, 0), .terminal = t->master};

	container_report_started(CONTAINER_REPORT_FD, &started);
	(void)fd_close(started.program);
}

pid_t container_start_program(const struct program_spec *s, bool console)
{
	/* Static: written by the child, which borrows this memory until it has executed the program
	 * or has ended. */
	static struct agent_reply exec_error;
	static struct terminal t = {.master = -1, .slave = -1};
	struct err e;
	struct program *program = program_prepare(s, &e);

	if (!program || open_terminal(s, program, console, &t, &e) < 0)
		fail(&e);
	pid_t pid = vfork();
	if (pid == 0) {
		program_exec(program, t.slave, &exec_error);
		_exit(1);
	}
	if (pid < 0) {
		(void)err_errno(&e, errno, "start a process");
		fail(&e);
	}
	if (exec_error.fail != AGENT_FAIL_NONE) {
		container_report_failed(CONTAINER_REPORT_FD, &exec_error);
		_exit(1);
	}
	report_started(pid, &t);
	/* Else the program could not close its own streams, seen from outside; and the terminal's
	 * end would not be noticed on either side. */
	terminal_close(&t);
	(void)close_range(0, 2, 0);
	return pid;
}
