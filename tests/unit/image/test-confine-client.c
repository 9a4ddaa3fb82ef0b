/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kosa8-image cannot do once it is confined, and what it still can. Each attempt is made in a
 * process of its own: before, where it must work, and after.
 */
#include "image/confine-client.h"

#include "tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int attempt(void); /* 0: it worked */

#define PATH_SIZE 4200

static char top[4096]; /* images/, outside/ and input */

static const char *in(const char *name)
{
	static char path[PATH_SIZE];

	(void)snprintf(path, sizeof(path), "%s/%s", top, name);
	return path;
}

/* Exit code of what() in a child that was confined for role, -1: not at all; 99: could not be. */
static int run(int role, attempt *what)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		char images[PATH_SIZE], input[PATH_SIZE];
		struct err e;
		(void)snprintf(images, sizeof(images), "%s", in("images"));
		(void)snprintf(input, sizeof(input), "%s", in("input"));
		char link[PATH_SIZE], loop[PATH_SIZE];
		(void)snprintf(link, sizeof(link), "%s", in("outside/to-linked"));
		(void)snprintf(loop, sizeof(loop), "%s", in("outside/loop"));
		const char *const readable[] = {"-", input, "/nosuchfile", loop, link, NULL};
		if (role >= 0 &&
			confine_image_worker((enum confine_image)role, images, readable, &e) < 0)
			_exit(99);
		_exit(what() == 0 ? 0 : 1);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static int make_file(const char *name)
{
	int fd = open(in(name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	return fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0 ? 0 : -1;
}

static int read_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char c;

	return fd >= 0 && read(fd, &c, 1) >= 0 ? 0 : -1;
}

static int try_write_outside(void)
{
	return make_file("outside/new");
}

static int try_truncate_outside(void)
{
	return truncate(in("outside/there"), 1);
}

static int try_link_outside(void)
{
	(void)unlink(in("outside/link"));
	return symlink("x", in("outside/link"));
}

static int try_read_outside(void)
{
	return read_file(in("outside/there"));
}

/* As layers are: written, renamed between folders, linked, removed. */
static int try_work_inside(void)
{
	char from[PATH_SIZE];

	if (mkdir(in("images/blobs"), 0700) < 0 || make_file("images/blobs/a") < 0)
		return -1;
	(void)snprintf(from, sizeof(from), "%s", in("images/blobs/a"));
	if (rename(from, in("images/b")) < 0 || truncate(in("images/b"), 0) < 0)
		return -1;
	return unlink(in("images/b")) < 0 || rmdir(in("images/blobs")) < 0 ? -1 : 0;
}

static int try_device_inside(void)
{
	int r = mkfifo(in("images/fifo"), 0600);

	(void)unlink(in("images/fifo"));
	return r;
}

static int try_read_input(void)
{
	return read_file(in("input"));
}

static int try_read_through_link(void)
{
	return read_file(in("outside/to-linked"));
}

static int try_read_etc(void)
{
	return read_file("/etc/passwd");
}

static int try_socket(void)
{
	return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 ? 0 : -1;
}

static int try_unix_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 ? 0 : -1;
}

static int try_hidden_unix_socket(void)
{
	return syscall(SYS_socket, (1ll << 32) + AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 ? 0
											      : -1;
}

static int try_socketpair(void)
{
	int ends[2];

	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
}

static int try_netlink_socket(void)
{
	return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0) >= 0 ? 0 : -1;
}

/* Nothing listens on the port: the refusal is the kernel's own, so the attempt was allowed. */
static int try_connect(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(1)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0)
		return -1;
	return connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0 || errno == ECONNREFUSED ? 0 : -1;
}

static int try_bind(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return fd >= 0 ? bind(fd, (struct sockaddr *)&a, sizeof(a)) : -1;
}

static int spawn(const char *path)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		(void)execl(path, path, NULL);
		_exit(100);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status) == 100 ? -1 : 0;
}

static int try_system_program(void)
{
	return spawn("/bin/true");
}

static int try_unpack(void)
{
	return spawn(getenv("TEST_UNPACK"));
}

static int try_other_program(void)
{
	return spawn(in("outside/program"));
}

static int try_signal_outside(void)
{
	return kill(getppid(), 0);
}

static int try_signal_child(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	return kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status)
		       ? 0
		       : -1;
}

static int try_ptrace(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	long r = ptrace(PTRACE_SEIZE, pid, NULL, NULL);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	return r == 0 ? 0 : -1;
}

static int try_io_uring(void)
{
	char params[120] = {0};

	/* ENOMEM, EINVAL: it was looked at. */
	return syscall(SYS_io_uring_setup, 1, params) >= 0 || errno != EPERM ? 0 : -1;
}

static int try_new_privileges(void)
{
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? -1 : 0;
}

static void denied(int role, attempt *what, const char *name)
{
	char text[120];

	(void)snprintf(text, sizeof(text), "%s: works before", name);
	EQ_INT(run(-1, what), 0, text);
	(void)snprintf(text, sizeof(text), "%s: not after (%s)", name,
		role == CONFINE_PULL ? "pull" : "archive");
	EQ_INT(run(role, what), 1, text);
}

static void allowed(int role, attempt *what, const char *name)
{
	char text[120];

	(void)snprintf(text, sizeof(text), "%s: still works (%s)", name,
		role == CONFINE_PULL ? "pull" : "archive");
	EQ_INT(run(role, what), 0, text);
}

static void test_always(int role)
{
	denied(role, try_ptrace, "look into a process");
	denied(role, try_io_uring, "io_uring");
	denied(role, try_new_privileges, "new privileges by exec");
	allowed(role, try_work_inside, "the images folder");
	allowed(role, try_read_input, "the input");
	allowed(role, try_read_through_link, "what a link leads to");
	allowed(role, try_unpack, "kosa8-unpack");
	allowed(role, try_signal_child, "signal a child");
}

static void test_landlock(int role, long abi)
{
	denied(role, try_write_outside, "write outside");
	denied(role, try_link_outside, "make a link outside");
	denied(role, try_read_outside, "read outside");
	denied(role, try_device_inside, "make a fifo");
	denied(role, try_other_program, "run a program outside");
	allowed(role, try_system_program, "a system's program");
	if (abi >= 3)
		denied(role, try_truncate_outside, "truncate outside");
	if (abi >= 6)
		denied(role, try_signal_outside, "signal another process");
}

static void make_top(void)
{
	(void)snprintf(top, sizeof(top), "%s/test-confine-XXXXXX",
		getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(top) || mkdir(in("images"), 0700) < 0 || mkdir(in("outside"), 0700) < 0 ||
		make_file("outside/there") < 0 || make_file("input") < 0 ||
		make_file("outside/linked") < 0 || symlink("linked", in("outside/to-linked")) < 0 ||
		symlink("loop", in("outside/loop")) < 0)
		abort();
	char command[2 * PATH_SIZE];
	(void)snprintf(command, sizeof(command), "cp /bin/true '%s'", in("outside/program"));
	if (system(command) != 0)
		abort();
}

int main(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	char command[2 * PATH_SIZE];

	make_top();
	test_always(CONFINE_PULL);
	test_always(CONFINE_ARCHIVE);
	denied(CONFINE_ARCHIVE, try_socket, "a TCP socket");
	denied(CONFINE_ARCHIVE, try_unix_socket, "a Unix socket");
	allowed(CONFINE_PULL, try_connect, "connect");
	denied(CONFINE_PULL, try_unix_socket, "a Unix socket");
	denied(CONFINE_PULL, try_hidden_unix_socket, "a Unix socket with high bits");
	allowed(CONFINE_PULL, try_socketpair, "a pair of sockets");
	allowed(CONFINE_PULL, try_netlink_socket, "a netlink socket");
	printf("# Landlock ABI %ld\n", abi);
	if (abi >= 1) {
		test_landlock(CONFINE_PULL, abi);
		test_landlock(CONFINE_ARCHIVE, abi);
		allowed(CONFINE_PULL, try_read_etc, "the system's configuration");
		denied(CONFINE_ARCHIVE, try_read_etc, "the system's configuration");
	} else {
		OK(true, "files # SKIP this kernel has no Landlock");
	}
	if (abi >= 4)
		denied(CONFINE_PULL, try_bind, "listen");
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", top);
	EQ_INT(system(command), 0, "tidied");
	return tap_done();
}
