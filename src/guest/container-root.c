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

/* A folder of the upper layer has its own owner and mode; they should be the image's. */
static int copy_mode(const char *image_path, int dirfd, const char *name)
{
	struct stat st;

	if (lstat(image_path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if ((st.st_mode & 07777) == 0755 && st.st_uid == 0 && st.st_gid == 0)
		return 0;
	if (fchownat(dirfd, name, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
		fchmodat(dirfd, name, st.st_mode & 07777, 0) < 0)
		return -errno;
	return 0;
}

static int write_file(int dirfd, const char *name, const char *text)
{
	cleanup_fd int fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
}

/* The files that docker gives a container, in place of the image's. */
static int write_etc(const struct container *c, int upper)
{
	char text[512];
	int r;

	(void)snprintf(text, sizeof(text), "%s\n", c->hostname);
	r = write_file(upper, "etc/hostname", text);
	if (r < 0)
		return r;
	(void)snprintf(text, sizeof(text),
		"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t%s\n",
		c->hostname);
	r = write_file(upper, "etc/hosts", text);
	if (r < 0)
		return r;
	/* The agent answers there (dns.h). */
	r = write_file(
		upper, "etc/resolv.conf", "nameserver 127.0.0.1\noptions attempts:1 timeout:1\n");
	if (r < 0)
		return r;
	(void)snprintf(text, sizeof(text), "%s\n", c->machine_id);
	return write_file(upper, "etc/machine-id", text);
}

/* An image whose /etc is no folder keeps what it has there. */
static int drop_etc(int upper)
{
	int r = file_remove_tree(upper, "etc");

	return r < 0 ? r : 0;
}

static int fill_upper(const struct container *c, struct err *e)
{
	char path[192];

	(void)snprintf(path, sizeof(path), "%s/upper", c->disk_dir);
	cleanup_fd int upper = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = upper < 0 ? -errno : copy_mode(c->image_dir, upper, ".");
	if (r < 0)
		return err_errno(e, -r, "root of the container");
	(void)snprintf(path, sizeof(path), "%s/etc", c->image_dir);
	r = copy_mode(path, upper, "etc");
	if (r == -ENOTDIR)
		r = drop_etc(upper);
	else if (r == 0)
		r = write_etc(c, upper);
	return r < 0 ? err_errno(e, -r, "/etc of the container") : 0;
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
	if (mount("overlay", PATH_MERGED, "overlay", 0, options) < 0)
		return err_errno(e, errno, "mount the container's root");
	return 0;
}

int container_enter_root(const struct container *c, int *ret_workspace, struct err *e)
{
	int r;

	if ((r = fill_upper(c, e)) < 0 || (r = mount_overlay(c, e)) < 0)
		return r;
	*ret_workspace = (int)syscall(SYS_open_tree, AT_FDCWD, PATH_DISK "/workspace",
		OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (*ret_workspace < 0)
		return err_errno(e, errno, "the workspace folder");
	if ((r = fs_view_open(c->mounts, e)) < 0)
		return r;
	/* The old root is stacked on the new one and taken off at once (pivot_root(2), "new_root
	 * and put_old may be the same directory"). */
	if (chdir(PATH_MERGED) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
		umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return err_errno(e, errno, "change to the container's root");
	return 0;
}
