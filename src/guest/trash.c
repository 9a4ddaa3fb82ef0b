/* SPDX-License-Identifier: Apache-2.0 */
#include "trash.h"

#include "../base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int trash_take(int trash_fd, int dirfd, const char *name)
{
	static unsigned long counter;
	char to[32];

	/* The number restarts with the process; names from before are passed over. */
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

static int remove_entry(int trash_fd, int dirfd, const char *name, int depth);

static int remove_entries(int trash_fd, int dirfd, const char *name, int depth)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;
	int r = 0;

	if (!d) {
		r = -errno;
		(void)fd_close(fd);
		return r;
	}
	while (r == 0 && (de = readdir(d)))
		if (!is_dots(de->d_name))
			r = remove_entry(trash_fd, fd, de->d_name, depth);
	(void)closedir(d);
	return r;
}

static int remove_entry(int trash_fd, int dirfd, const char *name, int depth)
{
	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0)
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return -errno;
	if (depth == 0)
		return trash_take(trash_fd, dirfd, name);
	int r = remove_entries(trash_fd, dirfd, name, depth - 1);
	if (r < 0)
		return r;
	return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
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
	/* Again, because deep folders came in meanwhile. */
	while (r == 0 && any) {
		struct dirent *de;

		any = false;
		rewinddir(d);
		while (r == 0 && (de = readdir(d))) {
			if (is_dots(de->d_name))
				continue;
			any = true;
			r = remove_entry(trash_fd, fd, de->d_name, TRASH_DEPTH);
		}
	}
	(void)closedir(d);
	return r;
}
