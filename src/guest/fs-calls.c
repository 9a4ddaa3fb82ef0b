/* SPDX-License-Identifier: Apache-2.0 */
#include "fs-calls.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/log.h"
#include "../proto/fs.h"
#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

/* In the process: all else is closed. */
#define EVENTS_FD 3
#define OWNERS_FD 4
#define OWNERS_BACKLOG 64
#define OWNER_WAIT_MS 1000
#define PATH_BYTES 4096

struct event {
	struct fuse_out_header h;
	uint64_t folder;
	uint32_t kind, type;
	char path[PATH_BYTES];
};

/* ---- the process ---- */

static int open_folder(int root, const char *path)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};

	return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

static void make(int folder, const char *name, uint32_t type)
{
	if (S_ISDIR(type))
		(void)!mkdirat(folder, name, 0700);
	else if (S_ISLNK(type))
		(void)!symlinkat("-", folder, name);
	else
		(void)!mknodat(folder, name, (mode_t)((type & S_IFMT) | 0600), 0);
}

/* What fails is a program's change that came in between: its own event tells of it. */
static void raise_event(int folder, const char *name, const struct event *m)
{
	struct timespec modified[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
	struct timespec attrib[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};

	switch (m->kind) {
	case FS_EVENT_CREATED:
		return make(folder, name, m->type);
	case FS_EVENT_DELETED:
		(void)!unlinkat(folder, name, S_ISDIR(m->type) ? AT_REMOVEDIR : 0);
		return;
	case FS_EVENT_MODIFIED:
		(void)!utimensat(folder, name, modified, AT_SYMLINK_NOFOLLOW);
		return;
	case FS_EVENT_ATTRIB:
		(void)!utimensat(folder, name, attrib, AT_SYMLINK_NOFOLLOW);
		return;
	default:
		return;
	}
}

static void on_event(const char *root_path, struct event *m, size_t len)
{
	const size_t head = offsetof(struct event, path);

	if (len <= head || len > sizeof(*m) || m->path[len - head - 1] != '\0')
		return;
	char *slash = strrchr(m->path, '/');
	const char *name = slash ? slash + 1 : m->path;
	if (slash)
		*slash = '\0';
	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return;
	cleanup_fd int root = open(root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	cleanup_fd int folder = root < 0 ? -1 : open_folder(root, slash ? m->path : ".");
	if (folder >= 0)
		raise_event(folder, name, m);
}

static void announce(const char *root)
{
	char value[16];
	int n = snprintf(value, sizeof(value), "%d", (int)getpid());

	/* A server that does not know of it sends no events. */
	(void)setxattr(root, "trusted.kosa8.relay", value, (size_t)n, 0);
}

/* One byte: the mount is ready. */
static void step_events(const char *root)
{
	struct event m;
	ssize_t n = recv(EVENTS_FD, &m, sizeof(m), 0);

	if (n == 0 || (n < 0 && errno != EINTR))
		_exit(0);
	if (n == 1)
		announce(root);
	else if (n > 0)
		on_event(root, &m, (size_t)n);
}

static void step_owners(const char *root)
{
	cleanup_fd int sock = accept4(OWNERS_FD, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct pollfd p = {.fd = sock, .events = POLLIN};
	char value[FS_CALLS_OWNER_SIZE] = "";

	if (sock < 0 || poll(&p, 1, OWNER_WAIT_MS) <= 0)
		return;
	ssize_t n = recv(sock, value, sizeof(value) - 1, 0);
	if (n <= 0)
		return;
	int32_t r = setxattr(root, "trusted.kosa8.owner", value, (size_t)n, 0) < 0 ? -errno : 0;
	(void)send(sock, &r, sizeof(r), MSG_NOSIGNAL);
}

static _Noreturn void calls_main(uint32_t id, int events, int owners)
{
	char root[RELAY_PATH_SIZE];

	(void)prctl(PR_SET_NAME, "mount-calls");
	(void)signal(SIGCHLD, SIG_DFL);
	events = fcntl(events, F_DUPFD_CLOEXEC, OWNERS_FD + 1);
	owners = fcntl(owners, F_DUPFD_CLOEXEC, OWNERS_FD + 1);
	if (events < 0 || owners < 0 || dup2(events, EVENTS_FD) < 0 ||
		dup2(owners, OWNERS_FD) < 0 || close_range(OWNERS_FD + 1, ~0u, 0) < 0)
		_exit(1);
	relay_path(id, "fs", root);
	for (;;) {
		struct pollfd p[2] = {
			{.fd = EVENTS_FD, .events = POLLIN}, {.fd = OWNERS_FD, .events = POLLIN}};

		if (poll(p, 2, -1) < 0)
			continue;
		if (p[1].revents)
			step_owners(root);
		if (p[0].revents)
			step_events(root);
	}
}

/* ---- the relay's side ---- */

static int listen_for_owners(uint32_t id, struct err *e)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	cleanup_fd int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	_Static_assert(sizeof(a.sun_path) >= RELAY_PATH_SIZE, "the path fits");
	relay_path(id, "calls", a.sun_path);
	(void)unlink(a.sun_path);
	if (sock < 0 || bind(sock, (struct sockaddr *)&a, sizeof(a)) < 0 ||
		listen(sock, OWNERS_BACKLOG) < 0)
		return err_errno(e, errno, "%s", a.sun_path);
	return fd_take(&sock);
}

int fs_calls_start(uint32_t id, struct err *e)
{
	cleanup_fd int owners = listen_for_owners(id, e);
	int pair[2];

	if (owners < 0)
		return owners;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(e, errno, "channel to the mount's calls");
	/* Nobody waits for its end. */
	(void)signal(SIGCHLD, SIG_IGN);
	pid_t pid = fork();
	if (pid == 0)
		calls_main(id, pair[1], owners);
	(void)fd_close(pair[1]);
	if (pid < 0) {
		(void)fd_close(pair[0]);
		return err_errno(e, errno, "start the mount's calls");
	}
	return pair[0];
}

static void put(int fd, const void *data, size_t len)
{
	if (fd >= 0 && send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN)
		log_warn("an event of a mount was lost: %s", strerror(errno));
}

void fs_calls_ready(int fd)
{
	put(fd, "", 1);
}

void fs_calls_event(int fd, const void *data, size_t len)
{
	if (len > offsetof(struct event, path) && len <= sizeof(struct event))
		put(fd, data, len);
}

void fs_calls_forget(uint32_t id)
{
	char path[RELAY_PATH_SIZE];

	relay_path(id, "calls", path);
	(void)unlink(path);
}

/* ---- a container's side ---- */

int fs_calls_open(uint32_t id)
{
	char path[RELAY_PATH_SIZE];

	relay_path(id, "calls", path);
	return open(path, O_PATH | O_CLOEXEC);
}

int fs_calls_tell(int opened, uint32_t uid, uint32_t gid)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	char value[FS_CALLS_OWNER_SIZE];
	cleanup_fd int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d", opened);
	int n = snprintf(value, sizeof(value), "%u:%u", uid, gid);
	if (sock < 0 || connect(sock, (struct sockaddr *)&a, sizeof(a)) < 0 ||
		send(sock, value, (size_t)n, MSG_NOSIGNAL) < 0)
		return -errno;
	return fd_take(&sock);
}

int fs_calls_told(int sock, int64_t deadline_ms)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	int32_t r;

	int n = poll(&p, 1, clock_left_ms(deadline_ms));
	if (n <= 0)
		return n < 0 ? -errno : -ETIMEDOUT;
	return recv(sock, &r, sizeof(r), 0) == (ssize_t)sizeof(r) ? r : -ECONNRESET;
}
