/* SPDX-License-Identifier: Apache-2.0 */
#include "container.h"

#include "../base/fd.h"
#include "../base/file.h"
#include "boot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILE_TEXT_MAX 1024

/* The overlay's root has the upper folder's owner and mode; they should be the image's. */
static int copy_root_mode(const struct container *c, struct err *e)
{
	char upper[80];
	struct stat st;

	if (stat(c->image_dir, &st) < 0)
		return err_errno(e, errno, "the image's root");
	if ((st.st_mode & 07777) == 0755 && st.st_uid == 0 && st.st_gid == 0)
		return 0;
	(void)snprintf(upper, sizeof(upper), "%s/upper", c->disk_dir);
	if (chown(upper, st.st_uid, st.st_gid) < 0 || chmod(upper, st.st_mode & 07777) < 0)
		return err_errno(e, errno, "root of the container");
	return 0;
}

/* volatile: what a container writes to its own root is gone when it ends, so nothing of it is ever
 * waited for on the disk; without it, every end of a run would sync the whole disk. */
static int mount_overlay(const struct container *c, struct err *e)
{
	char options[512];
	int n = snprintf(options, sizeof(options),
		"lowerdir=%s,upperdir=%s/upper,workdir=%s/work,volatile", c->image_dir, c->disk_dir,
		c->disk_dir);

	if (n < 0 || (size_t)n >= sizeof(options))
		return err_errno(e, ENAMETOOLONG, "root of the container");
	int r = copy_root_mode(c, e);
	if (r < 0)
		return r;
	if (mount("overlay", PATH_MERGED, "overlay", 0, options) < 0)
		return err_errno(e, errno, "mount the container's root");
	return 0;
}

static void file_text(const struct container *c, enum container_file f, char *ret)
{
	switch (f) {
	case CONTAINER_HOSTNAME:
		(void)snprintf(ret, FILE_TEXT_MAX, "%s\n", c->hostname);
		return;
	case CONTAINER_HOSTS:
		(void)snprintf(ret, FILE_TEXT_MAX,
			"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
			"127.0.1.1\t%s\n",
			c->hostname);
		return;
	case CONTAINER_RESOLV_CONF:
		/* The agent answers there (dns.h). */
		(void)snprintf(
			ret, FILE_TEXT_MAX, "nameserver 127.0.0.1\noptions attempts:1 timeout:1\n");
		return;
	case CONTAINER_MACHINE_ID:
		(void)snprintf(ret, FILE_TEXT_MAX, "%s\n", c->machine_id);
		return;
	case CONTAINER_FILE_COUNT:
		break;
	}
	ret[0] = '\0';
}

/* One file of the run's own, as a mount that is not attached anywhere yet. */
static int make_file(const struct container *c, int dirfd, enum container_file f)
{
	char name[8], text[FILE_TEXT_MAX];

	(void)snprintf(name, sizeof(name), "%d", (int)f);
	file_text(c, f, text);
	cleanup_fd int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	int r = fd_write_all(fd, text, strlen(text));
	if (r < 0)
		return r;
	r = (int)syscall(SYS_open_tree, dirfd, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	return r < 0 ? -errno : r;
}

static int take_trees(const struct container *c, struct container_trees *ret, struct err *e)
{
	char path[64];

	(void)snprintf(path, sizeof(path), PATH_FILES "/%s", c->run->id);
	cleanup_fd int dirfd = dir_open(AT_FDCWD, path, true, 0700);
	if (dirfd < 0)
		return err_errno(e, -dirfd, "%s", path);
	for (int i = 0; i < CONTAINER_FILE_COUNT; i++) {
		int fd = make_file(c, dirfd, i);
		if (fd < 0)
			return err_errno(e, -fd, "files for /etc");
		ret->files[i] = fd;
	}
	ret->workspace = (int)syscall(SYS_open_tree, AT_FDCWD, PATH_DISK "/workspace",
		OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	return ret->workspace < 0 ? err_errno(e, errno, "the workspace folder") : 0;
}

int container_enter_root(const struct container *c, struct container_trees *ret, struct err *e)
{
	int r;

	if ((r = mount_overlay(c, e)) < 0 || (r = take_trees(c, ret, e)) < 0)
		return r;
	/* The old root is stacked on the new one and taken off at once (pivot_root(2), "new_root
	 * and put_old may be the same directory"). */
	if (chdir(PATH_MERGED) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
		umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return err_errno(e, errno, "change to the container's root");
	return 0;
}
