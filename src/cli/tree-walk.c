/* SPDX-License-Identifier: Apache-2.0 */
#include "tree-walk.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define NAME_SIZE 256

int tree_walk(int base, const char *path, size_t len)
{
	cleanup_fd int fd = openat(base, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char name[NAME_SIZE];

	for (const char *end = path + len; fd >= 0 && path < end;) {
		size_t n = 0;
		while (path + n < end && path[n] != '/')
			n++;
		if (n == 0 || n >= sizeof(name))
			return -EINVAL;
		memcpy(name, path, n);
		name[n] = '\0';
		int next = openat(fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -errno;
		(void)fd_close(fd);
		fd = next;
		path += path + n < end ? n + 1 : n;
	}
	return fd < 0 ? -errno : fd_take(&fd);
}

size_t tree_parent_len(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (size_t)(slash - path) : 0;
}

const char *tree_last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}
