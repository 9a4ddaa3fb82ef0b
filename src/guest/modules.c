/* SPDX-License-Identifier: Apache-2.0 */
#include "modules.h"

#include "../base/fd.h"
#include "../base/file.h"
#include "../base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LIST_MAX 8192

static int load(int dirfd, const char *name, struct err *e)
{
	cleanup_fd int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_errno(e, errno, "kernel module %s", name);
	if (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST)
		return err_errno(e, errno, "kernel module %s", name);
	return 0;
}

int modules_load(const char *dir, struct err *e)
{
	cleanup_fd int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_buf struct buf list = {0};
	char *line, *rest;

	buf_init(&list, LIST_MAX);
	if (dirfd < 0)
		return err_errno(e, errno, "%s", dir);
	int r = file_read(dirfd, "list", &list);
	if (r < 0)
		return err_errno(e, -r, "%s/list", dir);
	if (!buf_cstr(&list))
		return err_errno(e, ENOMEM, "%s/list", dir);
	rest = (char *)list.data;
	while ((line = strsep(&rest, "\n"))) {
		if (*line == '\0')
			continue;
		r = load(dirfd, line, e);
		if (r < 0)
			return r;
	}
	return 0;
}

void modules_discard(const char *dir)
{
	int r = file_remove_tree(AT_FDCWD, dir);

	if (r < 0)
		log_warn("remove %s: %s", dir, strerror(-r));
}
