/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a confined process cannot do. Each attempt is made twice in processes of its own: before,
 * where it must work (else the test says nothing), and after confinement.
 */
#include "image/unpack/confine.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int attempt(void); /* 0: it worked */
typedef int stage(struct err *e);

/* Exit code, or 256 + signal. */
static int wait_child(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static int run(stage *confine, attempt *what)
{
	pid_t pid = fork();

	if (pid == 0) {
		struct err e;
		if (confine && confine(&e) < 0)
			_exit(99);
		_exit(what() == 0 ? 0 : 1);
	}
	return wait_child(pid);
}

static int all_stages(struct err *e)
{
	const struct confine_limits l = {
		.cpu_seconds = 60, .memory_bytes = 256u << 20, .file_bytes = 1 << 20};

	if (confine_start(3, e) < 0)
		return -1;
	/* As in kosa8-unpack: a process of its own, which the process namespace is for. */
	(void)confine_namespaces();
	pid_t pid = fork();
	if (pid != 0) {
		int code = wait_child(pid);
		if (code >= 256)
			(void)raise(code - 256);
		_exit(code);
	}
	if (confine_limits(&l, e) < 0 || confine_landlock(CONFINE_WORKER, e) < 0 ||
		confine_capabilities(e) < 0)
		return -1;
	return confine_syscalls(CONFINE_WORKER, 0, e);
}

static pid_t parent;

static int monitor_of_parent(struct err *e)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
		       ? -1
		       : confine_syscalls(CONFINE_MONITOR, parent, e);
}

static int landlock_only(struct err *e)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || confine_landlock(CONFINE_WORKER, e) < 0
		       ? -1
		       : 0;
}

static int try_open(void)
{
	return open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 ? 0 : -1;
}

static int try_create(void)
{
	char name[] = "/tmp/test-confine-XXXXXX";
	int fd = mkstemp(name);

	return fd >= 0 && unlink(name) == 0 ? 0 : -1;
}

static int try_stat(void)
{
	struct stat st;

	return stat("/etc", &st);
}

static int try_socket(void)
{
	return socket(AF_INET, SOCK_STREAM, 0) >= 0 ? 0 : -1;
}

static int try_socketpair(void)
{
	int fd[2];

	return socketpair(AF_UNIX, SOCK_STREAM, 0, fd);
}

static int try_exec(void)
{
	char *argv[] = {"true", NULL};

	return execv("/bin/true", argv);
}

static int try_fork(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid > 0 ? 0 : -1;
}

static int try_kill(void)
{
	return kill(getppid(), 0);
}

static int try_exec_memory(void)
{
	void *p = mmap(
		NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p != MAP_FAILED ? 0 : -1;
}

static int try_inherited(void)
{
	return fcntl(17, F_GETFD) >= 0 || errno == EACCES ? 0 : -1;
}

#ifndef __SANITIZE_ADDRESS__
static int try_memory(void)
{
	void *p = malloc(300u << 20);

	if (!p)
		return -1;
	((volatile char *)p)[0] = 1;
	free(p);
	return 0;
}
#endif

/* What must still work. */
static void *thread_main(void *arg)
{
	return arg;
}

static int try_thread(void)
{
	pthread_t t;
	void *ret = NULL;

	if (pthread_create(&t, NULL, thread_main, NULL) != 0)
		return -1;
	return pthread_join(t, &ret) == 0 ? 0 : -1;
}

static int try_write(void)
{
	return write(1, "", 0) == 0 ? 0 : -1;
}

static int only_descriptors(struct err *e)
{
	return confine_start(3, e);
}

static int only_limits(struct err *e)
{
	const struct confine_limits l = {
		.cpu_seconds = 60, .memory_bytes = 256u << 20, .file_bytes = 1 << 20};

	return confine_limits(&l, e);
}

static int try_large_file(void)
{
	int fd = memfd_create("x", MFD_CLOEXEC);
	int r = ftruncate(fd, 2 << 20);

	return r == 0 ? 0 : errno == EFBIG ? -1 : -2;
}

static int cpu_limit(struct err *e)
{
	const struct confine_limits l = {
		.cpu_seconds = 1, .memory_bytes = 256u << 20, .file_bytes = 1 << 20};

	return confine_limits(&l, e);
}

static int burn(void)
{
	for (volatile unsigned long i = 0; i < ~0ul; i++)
		;
	return 0;
}

static void denied(stage *confine, attempt *what, int want, const char *name)
{
	char text[120];

	(void)snprintf(text, sizeof(text), "%s: works before", name);
	EQ_INT(run(NULL, what), 0, text);
	(void)snprintf(text, sizeof(text), "%s: not after", name);
	EQ_INT(run(confine, what), want, text);
}

int main(void)
{
	const int killed = 256 + SIGSYS;
	struct err e;

	denied(all_stages, try_open, 1, "open a file");
	denied(all_stages, try_create, 1, "make a file");
	denied(all_stages, try_stat, 1, "stat a path");
	denied(all_stages, try_socket, killed, "make a socket");
	denied(all_stages, try_socketpair, killed, "make a socket pair");
	denied(all_stages, try_exec, killed, "run a program");
	denied(all_stages, try_fork, killed, "start a process");
	denied(all_stages, try_kill, killed, "signal a process");
	denied(all_stages, try_exec_memory, killed, "map executable memory");
	EQ_INT(run(all_stages, try_thread), 0, "a thread still works");
	EQ_INT(run(all_stages, try_write), 0, "an open descriptor still works");

	parent = getpid();
	denied(monitor_of_parent, try_kill, killed, "a monitor: another signal than SIGKILL");

	OK(dup2(0, 17) == 17, "a descriptor that is not handed over");
	denied(only_descriptors, try_inherited, 1, "use it");
	(void)close(17);
	denied(only_limits, try_large_file, 1, "write a large file");
#ifndef __SANITIZE_ADDRESS__
	denied(only_limits, try_memory, 1, "take more memory than allowed");
#endif
	EQ_INT(run(cpu_limit, burn), 256 + SIGXCPU, "the processor's time ends");
	if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1) > 0) {
		denied(landlock_only, try_open, 1, "Landlock alone: open a file");
		denied(landlock_only, try_create, 1, "Landlock alone: make a file");
		denied(landlock_only, try_exec, 1, "Landlock alone: run a program");
	} else {
		EQ_INT(confine_landlock(CONFINE_WORKER, &e), 0,
			"a kernel without Landlock is no error");
	}
	return tap_done();
}
