/* SPDX-License-Identifier: Apache-2.0 */
#include "holder.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/file.h"
#include "../base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether the open file description behind fd `name` of the process holds a flock. */
static bool holds_lock(int procfd, const char *name)
{
	char path[32];
	cleanup_buf struct buf b = {0};

	buf_init(&b, 64u * 1024);
	(void)snprintf(path, sizeof(path), "fdinfo/%.16s", name);
	if (file_read(procfd, path, &b) < 0)
		return false;
	const char *text = buf_cstr(&b);
	return text && strstr(text, "\nlock:");
}

static bool process_holds(int procfd, const struct stat *lock)
{
	int fd = openat(procfd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	bool found = false;
	struct dirent *de;

	if (!d) {
		(void)fd_close(fd);
		return false;
	}
	while (!found && (de = readdir(d))) {
		struct stat st;
		found = de->d_name[0] != '.' && fstatat(dirfd(d), de->d_name, &st, 0) == 0 &&
			same_file(&st, lock) && holds_lock(procfd, de->d_name);
	}
	(void)closedir(d);
	return found;
}

/* The kernel keeps 15 bytes of a program's name. */
static bool is_supervisor(int procfd)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, 64);
	if (file_read(procfd, "comm", &b) < 0)
		return false;
	const char *comm = buf_cstr(&b);
	return comm && text_starts_with(comm, "kosa8-superviso");
}

static int check_process(const char *name, const struct stat *lock)
{
	uint64_t pid;
	char path[32];

	if (text_parse_u64(name, 1, INT_MAX, &pid) < 0 || (pid_t)pid == getpid())
		return -ENOENT;
	/* The pidfd first: what is looked at then is that process or, once it ended, nothing. */
	cleanup_fd int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	(void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	cleanup_fd int procfd = pidfd < 0 ? -1 : open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (procfd < 0 || !is_supervisor(procfd) || !process_holds(procfd, lock))
		return -ENOENT;
	return fd_take(&pidfd);
}

int holder_find(int sandbox_dirfd)
{
	struct stat lock;
	int pidfd = -ENOENT;
	struct dirent *de;

	if (fstatat(sandbox_dirfd, "lock", &lock, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	DIR *d = opendir("/proc");
	if (!d)
		return -errno;
	while (pidfd < 0 && (de = readdir(d)))
		pidfd = check_process(de->d_name, &lock);
	(void)closedir(d);
	return pidfd;
}

bool holder_wait(int pidfd, int64_t deadline_ms)
{
	for (;;) {
		struct pollfd p = {.fd = pidfd, .events = POLLIN};
		int n = poll(&p, 1, clock_left_ms(deadline_ms));
		if (n < 0 && errno == EINTR)
			continue;
		return n > 0;
	}
}

int holder_kill(int pidfd)
{
	return syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) < 0 ? -errno : 0;
}
