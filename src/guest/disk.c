/* SPDX-License-Identifier: Apache-2.0 */
#include "disk.h"

#include "../base/fd.h"
#include "../base/file.h"
#include "boot.h"
#include "trash.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEVICE "/dev/vda"
/* The file system's reserved blocks are for nobody's uid, so for CAP_SYS_RESOURCE only: containers
 * have it not (the overlay gives it up by itself), and a full disk does not keep the next run from
 * starting (and removing something).
 */
#define MOUNT_OPTIONS "discard,resuid=4294967294"

void disk_init(struct disk *d)
{
	*d = (struct disk){.fd = -1, .runs_fd = -1, .containers_fd = -1, .trash_fd = -1};
}

/* The kernel may remember blocks of another disk: the one that was there when the template was
 * saved. */
static int forget_cached_blocks(struct err *e)
{
	cleanup_fd int fd = open(DEVICE, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, BLKFLSBUF, 0) < 0)
		return err_errno(e, errno, DEVICE);
	return 0;
}

static int make_layout(struct disk *d, struct err *e)
{
	cleanup_fd int disk = open(PATH_DISK, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_fd int trash = disk < 0 ? -errno : dir_open(disk, "trash", true, 0700);

	if (trash < 0)
		return err_errno(e, -trash, "folders of the disk");
	if (mkdirat(disk, "workspace", 0) == 0 && fchmodat(disk, "workspace", 01777, 0) < 0)
		return err_errno(e, errno, "workspace folder");
	int r = trash_take(trash, disk, "runs");
	if (r < 0 && r != -ENOENT)
		return err_errno(e, -r, "put away old runs");
	cleanup_fd int runs = dir_open(disk, "runs", true, 0700);
	cleanup_fd int containers = runs < 0 ? runs : dir_open(disk, "containers", true, 0700);
	if (containers < 0)
		return err_errno(e, -containers, "folders of the disk");
	d->fd = fd_take(&disk);
	d->trash_fd = fd_take(&trash);
	d->runs_fd = fd_take(&runs);
	d->containers_fd = fd_take(&containers);
	return 0;
}

int disk_mount(struct disk *d, struct err *e)
{
	int r = forget_cached_blocks(e);

	if (r < 0)
		return r;
	if (mount(DEVICE, PATH_DISK, "ext4", MS_NOATIME, MOUNT_OPTIONS) < 0)
		return err_errno(e, errno, "mount the sandbox's disk");
	r = make_layout(d, e);
	if (r < 0)
		(void)umount2(PATH_DISK, MNT_DETACH);
	return r;
}

int disk_unmount(struct disk *d, struct err *e)
{
	if (d->fd < 0)
		return 0;
	d->runs_fd = fd_close(d->runs_fd);
	d->containers_fd = fd_close(d->containers_fd);
	d->trash_fd = fd_close(d->trash_fd);
	d->fd = fd_close(d->fd);
	sync();
	if (umount2(PATH_DISK, 0) < 0)
		return err_errno(e, errno, "unmount the sandbox's disk");
	return 0;
}
