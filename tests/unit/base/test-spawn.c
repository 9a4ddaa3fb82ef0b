/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/spawn.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct err e;

static int run(const char *script, struct buf *out, long long deadline_ms)
{
	char *const argv[] = {(char *)"sh", (char *)"-c", (char *)script, NULL};

	return spawn_run(argv, out, deadline_ms, &e);
}

static void test_run(void)
{
	cleanup_buf struct buf b;
	char *const none[] = {(char *)"/nonexistent/program", NULL};

	buf_init(&b, 4096);
	EQ_INT(run("echo out; echo err >&2; exit 7", &b, -1), 7, "the exit code");
	EQ_STR(buf_cstr(&b), "out\nerr\n", "stdout and stderr");
	EQ_INT(run("kill -9 $$", NULL, -1), 137, "ended by a signal");
	buf_reset(&b);
	EQ_INT(run("wc -c", &b, -1), 0, "stdin is empty");
	EQ_STR(buf_cstr(&b), "0\n", "at once");
	OK(spawn_run(none, NULL, -1, &e) < 0 && e.errnum == ENOENT &&
			strstr(e.what, "/nonexistent/program"),
		"a program that is not there");
}

static void test_output_bounds(void)
{
	cleanup_buf struct buf b;

	buf_init(&b, 100);
	EQ_INT(run("i=0; while [ $i -lt 5000 ]; do echo 0123456789; i=$((i+1)); done", &b, -1), 0,
		"more output than wanted");
	OK(b.len == 100 && !buf_failed(&b), "the rest is dropped");
}

/* The child ends at the deadline, whatever it does with its output. */
static void test_deadlines(void)
{
	static const char *const scripts[] = {
		"exec sleep 100", "exec sleep 100 >&- 2>&-", "exec yes"};
	int64_t start = clock_mono_ms();

	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		int r = run(scripts[i], NULL, clock_mono_ms() + 100);
		OK(r == -ETIMEDOUT && e.kind == ERR_TIMEOUT, scripts[i]);
	}
	OK(clock_mono_ms() - start < 30000, "each ended at its deadline");
	EQ_INT(waitpid(-1, NULL, WNOHANG), -1, "no child is left");
	EQ_INT(run("echo done", NULL, clock_mono_ms() + 60000), 0, "control: one that is in time");
}

/* A grandchild that keeps the pipe open is not waited for. */
static void test_grandchild(void)
{
	cleanup_buf struct buf b;
	int64_t start = clock_mono_ms();

	buf_init(&b, 4096);
	EQ_INT(run("sleep 30 & echo $!", &b, -1), 0, "a child that leaves another behind");
	OK(clock_mono_ms() - start < 20000, "its end is the end");
	int pid = 0;
	OK(buf_cstr(&b) && sscanf((char *)b.data, "%d", &pid) == 1 && pid > 1,
		"what it wrote is read");
	if (pid > 1)
		(void)kill(pid, SIGKILL);
}

static void test_descriptors(void)
{
	cleanup_fd int a = memfd_create("a", 0), b = memfd_create("b", 0), out = -1;
	char *const argv[] = {(char *)"sh", (char *)"-c",
		(char *)"cat <&4; echo -n -; cat <&3; for f in /proc/self/fd/*; do "
			"[ -e $f ] && echo -n \" ${f##*/}\"; done; exit 0",
		NULL};
	char text[100] = "";
	pid_t pid;

	out = memfd_create("out", MFD_CLOEXEC);
	if (fd_write_all(a, "A", 1) < 0 || fd_write_all(b, "B", 1) < 0)
		return;
	(void)lseek(a, 0, SEEK_SET);
	(void)lseek(b, 0, SEEK_SET);
	/* a and b are 3 and 4 here, or near: they must not overwrite each other. */
	struct spawn s = {.argv = argv, .fds = {-1, out, -1, b, a}, .fds_len = 5};
	EQ_INT(spawn_start(&s, &pid, NULL, &e), 0, "started with five descriptors");
	EQ_INT(spawn_wait(pid), 0, "ended");
	EQ_INT(fd_pread_full(out, text, sizeof(text) - 1, 0), 13, "its output");
	/* The shell reads the folder through one more. */
	OK(strncmp(text, "A-B 0 1 2 3 4", 13) == 0, "it has these and no others");
	printf("# %s\n", text);
}

static int refuse(void *ctx)
{
	return *(int *)ctx;
}

static int limit(void *ctx)
{
	struct rlimit l = {.rlim_cur = 77, .rlim_max = 77};

	(void)ctx;
	return setrlimit(RLIMIT_NOFILE, &l) < 0 ? -errno : 0;
}

static void test_confine(void)
{
	cleanup_fd int out = memfd_create("out", MFD_CLOEXEC);
	char *const argv[] = {(char *)"sh", (char *)"-c", (char *)"ulimit -n", NULL};
	char text[20] = "";
	int why = -EPERM;
	pid_t pid = -5;
	struct spawn s = {.argv = argv,
		.fds = {-1, out, -1},
		.fds_len = 3,
		.confine = refuse,
		.confine_ctx = &why};

	OK(spawn_start(&s, &pid, NULL, &e) == -EPERM && e.kind == ERR_DENIED, "confine refuses");
	OK(pid == -5 && waitpid(-1, NULL, WNOHANG) < 0, "no child is left");
	s.confine = limit;
	EQ_INT(spawn_start(&s, &pid, NULL, &e), 0, "confine allows");
	EQ_INT(spawn_wait(pid), 0, "ended");
	OK(fd_pread_full(out, text, sizeof(text) - 1, 0) == 3 && memcmp(text, "77\n", 3) == 0,
		"it ran before the program");
}

static void test_session_and_env(void)
{
	cleanup_fd int out = memfd_create("out", MFD_CLOEXEC), pidfd = -1;
	char *const argv[] = {(char *)"/bin/sh", (char *)"-c",
		(char *)"echo $ONLY$HOME; cut -d' ' -f6 /proc/$$/stat", NULL};
	char *const envp[] = {(char *)"ONLY=this", (char *)"PATH=/usr/bin:/bin", NULL};
	char text[64] = "", want[64];
	pid_t pid;
	struct spawn s = {.argv = argv,
		.envp = envp,
		.fds = {-1, out, -1},
		.fds_len = 3,
		.new_session = true};

	EQ_INT(spawn_start(&s, &pid, &pidfd, &e), 0, "started");
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	EQ_INT(poll(&p, 1, 60000), 1, "its pidfd tells of its end");
	EQ_INT(spawn_wait(pid), 0, "ended");
	(void)!fd_pread_full(out, text, sizeof(text) - 1, 0);
	(void)snprintf(want, sizeof(want), "this\n%d\n", (int)pid);
	EQ_STR(text, want, "the given environment, and a session of its own");
	EQ_INT(spawn_wait(pid), -ECHILD, "it cannot be waited for twice");
}

/* A parent that starts a child and is killed. */
static void test_die_with_parent(void)
{
	char *const argv[] = {(char *)"sleep", (char *)"100", NULL};
	int p[2], status;
	char byte;

	if (pipe2(p, O_CLOEXEC) < 0)
		return;
	pid_t parent = fork();
	if (parent == 0) {
		/* The child holds the pipe's end as its stdout. */
		struct spawn s = {
			.argv = argv, .fds = {-1, p[1], -1}, .fds_len = 3, .die_with_parent = true};
		pid_t pid;
		if (spawn_start(&s, &pid, NULL, &e) < 0)
			_exit(1);
		(void)raise(SIGKILL);
	}
	(void)close(p[1]);
	OK(waitpid(parent, &status, 0) == parent && WIFSIGNALED(status), "the parent was killed");
	struct pollfd poll_end = {.fd = p[0], .events = POLLIN};
	EQ_INT(poll(&poll_end, 1, 60000), 1, "its child ends too");
	EQ_INT(read(p[0], &byte, 1), 0, "and its pipe is closed");
	(void)close(p[0]);
}

int main(void)
{
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	test_run();
	test_output_bounds();
	test_deadlines();
	test_grandchild();
	test_descriptors();
	test_confine();
	test_session_and_env();
	test_die_with_parent();
	return tap_done();
}
