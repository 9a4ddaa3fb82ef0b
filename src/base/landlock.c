/* SPDX-License-Identifier: Apache-2.0 */
#include "landlock.h"

#include "fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FS_ALL_ABI_1 ((1ull << 13) - 1)
/* What a rule for a file may allow. */
#define FS_OF_FILES                                                  \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | \
		LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_FS_TRUNCATE | LANDLOCK_FS_IOCTL_DEV)

/* struct landlock_ruleset_attr, as younger headers have it. */
struct ruleset_attr {
	uint64_t fs, net, scoped;
};

void landlock_release(struct landlock *l)
{
	l->fd = fd_close(l->fd);
}

int landlock_start(uint64_t net, uint64_t scoped, struct landlock *ret, struct err *e)
{
	struct ruleset_attr a = {.fs = FS_ALL_ABI_1};
	size_t size = offsetof(struct ruleset_attr, net);
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	if (abi < 1)
		return 0;
	if (abi >= 2)
		a.fs |= LANDLOCK_FS_REFER;
	if (abi >= 3)
		a.fs |= LANDLOCK_FS_TRUNCATE;
	if (abi >= 4) {
		a.net = net;
		size = offsetof(struct ruleset_attr, scoped);
	}
	if (abi >= 5)
		a.fs |= LANDLOCK_FS_IOCTL_DEV;
	if (abi >= 6) {
		a.scoped = scoped;
		size = sizeof(a);
	}
	int fd = (int)syscall(SYS_landlock_create_ruleset, &a, size, 0);
	if (fd < 0)
		return err_errno(e, errno, "cannot create the Landlock rules");
	*ret = (struct landlock){.fd = fd, .fs = a.fs};
	return 1;
}

int landlock_allow(const struct landlock *l, const char *path, uint64_t rights, struct err *e)
{
	struct landlock_path_beneath_attr a;
	struct stat st;

	cleanup_fd int fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP ||
			      errno == ENAMETOOLONG))
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(e, errno, "%s", path);
	rights &= l->fs;
	if (!S_ISDIR(st.st_mode))
		rights &= FS_OF_FILES;
	a.allowed_access = rights;
	a.parent_fd = fd;
	if (syscall(SYS_landlock_add_rule, l->fd, LANDLOCK_RULE_PATH_BENEATH, &a, 0) < 0)
		return err_errno(e, errno, "cannot make a Landlock rule for %s", path);
	return 0;
}

int landlock_enter(struct landlock *l, struct err *e)
{
	if (syscall(SYS_landlock_restrict_self, l->fd, 0) < 0)
		return err_errno(e, errno, "cannot enter the Landlock rules");
	landlock_release(l);
	return 1;
}
