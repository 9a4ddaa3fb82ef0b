/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/trash.h"

#include "base/fd.h"
#include "base/file.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEVELS 500

/* A folder of so many levels, a file in each. */
static void make_deep(int dirfd, const char *name, int levels)
{
	int fd = dir_open(dirfd, name, true, 0755);

	for (int i = 0; fd >= 0 && i < levels; i++) {
		int next = dir_open(fd, "d", true, 0755);
		(void)mknodat(fd, "f", S_IFREG | 0644, 0);
		(void)close(fd);
		fd = next;
	}
	OK(fd >= 0, "made");
	(void)fd_close(fd);
}

static bool is_empty(int dirfd, const char *name)
{
	return unlinkat(dirfd, name, AT_REMOVEDIR) == 0;
}

int main(void)
{
	char path[] = "/tmp/test-trash.XXXXXX";

	OK(mkdtemp(path) != NULL, "folder");
	cleanup_fd int top = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_fd int trash = dir_open(top, "trash", true, 0700);
	OK(dir_open(top, "canary", true, 0700) >= 0, "canary");
	OK(mknodat(top, "canary/file", S_IFREG | 0644, 0) == 0, "file in it");

	make_deep(top, "deep", LEVELS);
	OK(symlinkat("../canary", top, "deep/link") == 0, "a link that leads out");
	EQ_INT(trash_take(trash, top, "deep"), 0, "taken");
	EQ_INT(trash_take(trash, top, "missing"), -ENOENT, "a missing one is told");
	OK(mknodat(trash, "3", S_IFREG | 0644, 0) == 0, "a name that is in the way");
	make_deep(top, "small", 2);
	EQ_INT(trash_take(trash, top, "small"), 0, "the next name is used");
	EQ_INT(trash_empty(trash), 0, "emptied");
	OK(faccessat(top, "canary/file", F_OK, 0) == 0, "links are not followed");
	OK(unlinkat(top, "canary/file", 0) == 0 && is_empty(top, "canary"), "canary removed");
	OK(is_empty(top, "trash"), "nothing is left in the trash");
	OK(rmdir(path) == 0, "nor anywhere else");
	return tap_done();
}
