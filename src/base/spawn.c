/* SPDX-License-Identifier: Apache-2.0 */
#include "spawn.h"

#include "buf.h"
#include "clock.h"
#include "fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Moves the wanted descriptors to 0..n-1. They are first lifted above n, so that no target
 * overwrites a source that is still needed. */
static int place_fds(const struct spawn *s, int floor, int report, int *ret_report)
{
	int lifted[SPAWN_FDS_MAX];

	for (size_t i = 0; i < s->fds_len; i++) {
		lifted[i] = -1;
		if (s->fds[i] >= 0 && (lifted[i] = fcntl(s->fds[i], F_DUPFD_CLOEXEC, floor)) < 0)
			return -errno;
	}
	if ((report = fcntl(report, F_DUPFD_CLOEXEC, floor)) < 0)
		return -errno;
	for (int i = 0; i < floor; i++) {
		int from = i < (int)s->fds_len ? lifted[i] : -1;
		if (from < 0 && i < 3) {
			from = open("/dev/null", O_RDWR | O_CLOEXEC);
			if (from < 0)
				return -errno;
		}
		if (from < 0) {
			(void)close(i);
			continue;
		}
		if (from == i) {
			if (fcntl(i, F_SETFD, 0) < 0)
				return -errno;
		} else if (dup2(from, i) < 0) {
			return -errno;
		}
	}
	*ret_report = report;
	return 0;
}

static void child(const struct spawn *s, int report, pid_t parent)
{
	int floor = s->fds_len < 3 ? 3 : (int)s->fds_len;
	sigset_t none;
	int r = place_fds(s, floor, report, &report);

	if (r < 0)
		goto out;
	if ((report > floor && syscall(SYS_close_range, floor, report - 1, 0) < 0) ||
		syscall(SYS_close_range, report + 1, ~0U, 0) < 0) {
		r = -errno;
		goto out;
	}
	for (int sig = 1; sig < NSIG; sig++)
		(void)signal(sig, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (s->die_with_parent) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) {
			r = -errno;
			goto out;
		}
		if (getppid() != parent) /* it died before the prctl */
			_exit(127);
	}
	if (s->new_session)
		(void)setsid();
	if (s->confine && (r = s->confine(s->confine_ctx)) < 0)
		goto out;
	(void)execvpe(s->argv[0], s->argv, s->envp ? s->envp : environ);
	r = -errno;
out:
	(void)!write(report, &r, sizeof(r));
	_exit(127);
}

int spawn_start(const struct spawn *s, pid_t *ret_pid, int *ret_pidfd, struct err *e)
{
	int report[2], failure = 0;
	pid_t parent = getpid();

	if (s->fds_len > SPAWN_FDS_MAX)
		return err_set(e, ERR_LIMIT, 0, "more than %d descriptors for %s", SPAWN_FDS_MAX,
			s->argv[0]);
	if (pipe2(report, O_CLOEXEC) < 0)
		return err_errno(e, errno, "cannot start %s", s->argv[0]);
	pid_t pid = fork();
	if (pid == 0) {
		child(s, report[1], parent);
		_exit(127);
	}
	int saved = errno;
	(void)fd_close(report[1]);
	if (pid < 0) {
		(void)fd_close(report[0]);
		return err_errno(e, saved, "cannot start %s", s->argv[0]);
	}
	ssize_t n = fd_read_full(report[0], &failure, sizeof(failure));
	(void)fd_close(report[0]);
	if (n == sizeof(failure)) {
		(void)waitpid(pid, NULL, 0);
		return err_errno(e, -failure, "cannot start %s", s->argv[0]);
	}
	if (ret_pidfd) {
		int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
		if (pidfd < 0) {
			saved = errno;
			(void)kill(pid, SIGKILL);
			(void)waitpid(pid, NULL, 0);
			return err_errno(e, saved, "cannot watch %s", s->argv[0]);
		}
		*ret_pidfd = pidfd;
	}
	*ret_pid = pid;
	return 0;
}

int spawn_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Reads once; what is over out's maximum is dropped. The count, 0 at the end. */
static ssize_t read_some(int fd, struct buf *out)
{
	char chunk[4096];
	ssize_t got;

	do
		got = read(fd, chunk, sizeof(chunk));
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	if (out && !buf_failed(out)) {
		size_t room = out->max - out->len;
		buf_put(out, chunk, (size_t)got < room ? (size_t)got : room);
	}
	return got;
}

/* Collects output until the child has ended and what it wrote is read; -ETIMEDOUT at the deadline.
 * A grandchild may hold the pipe for longer: of what comes after the child's end, no more is read
 * than a pipe holds (pipe(7)). */
static int collect(int fd, int pidfd, struct buf *out, int64_t deadline_ms)
{
	size_t left = 65536;
	bool more = true;

	for (;;) {
		struct pollfd p[2] = {
			{.fd = pidfd, .events = POLLIN}, {.fd = more ? fd : -1, .events = POLLIN}};
		int left_ms = clock_left_ms(deadline_ms);
		int n = left_ms == 0 ? 0 : poll(p, 2, left_ms);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ETIMEDOUT;
		if (!p[1].revents)
			return 0;
		ssize_t got = read_some(fd, out);
		if (got < 0)
			return (int)got;
		more = got > 0;
		if (!p[0].revents)
			continue;
		if ((size_t)got >= left)
			return 0;
		left -= (size_t)got;
	}
}

int spawn_run(char *const *argv, struct buf *out, long long deadline_ms, struct err *e)
{
	int pipefd[2];
	cleanup_fd int pidfd = -1;
	pid_t pid;

	if (pipe2(pipefd, O_CLOEXEC) < 0)
		return err_errno(e, errno, "cannot start %s", argv[0]);
	struct spawn s = {.argv = argv,
		.fds = {-1, pipefd[1], pipefd[1]},
		.fds_len = 3,
		.die_with_parent = true};
	int r = spawn_start(&s, &pid, &pidfd, e);
	(void)fd_close(pipefd[1]);
	if (r < 0) {
		(void)fd_close(pipefd[0]);
		return r;
	}
	r = collect(pipefd[0], pidfd, out, deadline_ms);
	(void)fd_close(pipefd[0]);
	if (r < 0)
		(void)kill(pid, SIGKILL);
	int code = spawn_wait(pid);
	if (r == -ETIMEDOUT)
		return err_set(e, ERR_TIMEOUT, 0, "%s did not finish in time", argv[0]);
	if (r < 0)
		return err_errno(e, -r, "reading from %s", argv[0]);
	if (code < 0)
		return err_errno(e, -code, "waiting for %s", argv[0]);
	return code;
}
