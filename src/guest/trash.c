/* SPDX-License-Identifier: Apache-2.0 */
#include "trash.h"

#include "../base/fd.h"
#include "../base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUICK_DEPTH 8
#define QUICK_FILE_BLOCKS 2048 /* of 512 bytes: freeing more takes long */

int trash_take(int trash_fd, int dirfd, const char *name)
{
	static unsigned long counter;
	char to[32];

	/* The number restarts with the agent; what is there from before has other names or is
	 * passed over. */
	for (;;) {
		(void)snprintf(to, sizeof(to), "%lu", ++counter);
		if (renameat2(dirfd, name, trash_fd, to, RENAME_NOREPLACE) == 0)
			return 0;
		if (errno != EEXIST)
			return -errno;
	}
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int remove_quick(int dirfd, const char *name, unsigned *budget, int depth);

static int remove_entries_quick(int fd, unsigned *budget, int depth)
{
	DIR *d = fdopendir(fd);
	struct dirent *de;
	int r = 0;

	if (!d) {
		(void)fd_close(fd);
		return -errno;
	}
	while (r == 0 && (de = readdir(d)))
		if (!is_dots(de->d_name))
			r = remove_quick(dirfd(d), de->d_name, budget, depth);
	(void)closedir(d);
	return r;
}

static int remove_quick(int dirfd, const char *name, unsigned *budget, int depth)
{
	struct stat st;

	if (*budget == 0 || depth == 0)
		return -EBUSY;
	--*budget;
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISDIR(st.st_mode)) {
		if (st.st_blocks > QUICK_FILE_BLOCKS)
			return -EBUSY;
		return unlinkat(dirfd, name, 0) < 0 ? -errno : 0;
	}
	if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0)
		return 0;
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = remove_entries_quick(fd, budget, depth - 1);
	if (r < 0)
		return r;
	return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int trash_remove_quick(int dirfd, const char *name, unsigned *budget)
{
	return remove_quick(dirfd, name, budget, QUICK_DEPTH);
}

/* Removes the files of one folder and moves its folders to the top of the trash. */
static int flatten(int trash_fd, const char *name)
{
	int fd = openat(trash_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;
	int r = 0;

	if (!d) {
		r = -errno;
		(void)fd_close(fd);
		return r;
	}
	while (r == 0 && (de = readdir(d))) {
		if (is_dots(de->d_name))
			continue;
		if (de->d_type != DT_DIR && unlinkat(fd, de->d_name, 0) == 0)
			continue;
		if (unlinkat(fd, de->d_name, AT_REMOVEDIR) == 0)
			continue;
		r = trash_take(trash_fd, fd, de->d_name);
	}
	(void)closedir(d);
	return r;
}

static int remove_top(int trash_fd, const char *name)
{
	if (unlinkat(trash_fd, name, 0) == 0 || unlinkat(trash_fd, name, AT_REMOVEDIR) == 0)
		return 0;
	int r = flatten(trash_fd, name);
	if (r < 0)
		return r;
	return unlinkat(trash_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int trash_empty(int trash_fd)
{
	int fd = openat(trash_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int r = 0;
	bool any = true;

	if (!d) {
		r = -errno;
		(void)fd_close(fd);
		return r;
	}
	while (r == 0 && any) {
		struct dirent *de;

		any = false;
		rewinddir(d);
		while (r == 0 && (de = readdir(d))) {
			if (is_dots(de->d_name))
				continue;
			any = true;
			r = remove_top(trash_fd, de->d_name);
		}
	}
	(void)closedir(d);
	return r;
}

void trash_child_step(struct trash_child *t, int trash_fd)
{
	if (!t->wanted || t->pid != 0 || trash_fd < 0)
		return;
	pid_t pid = fork();
	if (pid == 0) {
		(void)setpriority(PRIO_PROCESS, 0, 19);
		_exit(trash_empty(trash_fd) < 0 ? 1 : 0);
	}
	if (pid < 0) {
		log_warn("empty the trash: %s", strerror(errno));
		return;
	}
	t->pid = pid;
	t->wanted = false;
}

bool trash_child_reaped(struct trash_child *t, pid_t pid)
{
	if (pid != t->pid || pid == 0)
		return false;
	t->pid = 0;
	return true;
}

void trash_child_kill(struct trash_child *t)
{
	t->wanted = false;
	if (t->pid > 0 && kill(t->pid, SIGKILL) == 0)
		(void)waitpid(t->pid, NULL, 0);
	t->pid = 0;
}
