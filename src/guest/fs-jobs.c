/* SPDX-License-Identifier: Apache-2.0 */
/* The work on a mount that may have to wait for its server. */
#include "fs-mounts.h"

#include "../base/fd.h"
#include "../base/file.h"
#include "boot.h"
#include "fs-attach.h"
#include "mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

const char *fs_mount_dir(const struct fs_mount *m, char buf[static RELAY_PATH_SIZE])
{
	relay_path(m->id, m->mode == AGENT_MOUNT_COW ? "cow" : "fs", buf);
	return buf;
}

static int make_layer(uint32_t id)
{
	char name[16];
	cleanup_fd int disk = open(PATH_DISK, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_fd int cow = disk < 0 ? -errno : dir_open(disk, "cow", true, 0700);

	if (cow < 0)
		return cow;
	(void)snprintf(name, sizeof(name), "%u", id);
	cleanup_fd int own = dir_open(cow, name, true, 0700);
	cleanup_fd int upper = own < 0 ? own : dir_open(own, "upper", true, 0755);
	cleanup_fd int work = upper < 0 ? upper : dir_open(own, "work", true, 0755);
	return work < 0 ? work : 0;
}

/* The upper folder has to be readable by itself, for `diff` and `apply`: no metadata-only copies
 * and no redirected folders (a rename of one of the host's gives EXDEV, and programs copy). */
int fs_job_layer(const struct fs_mount *m, struct err *e)
{
	char fs[RELAY_PATH_SIZE], cow[RELAY_PATH_SIZE], options[384];
	int r = make_layer(m->id);

	if (r < 0)
		return err_errno(e, -r, "folders of the mount on the sandbox's disk");
	relay_path(m->id, "fs", fs);
	relay_path(m->id, "cow", cow);
	(void)snprintf(options, sizeof(options),
		"lowerdir=%s,upperdir=" PATH_DISK "/cow/%u/upper,workdir=" PATH_DISK
		"/cow/%u/work,redirect_dir=nofollow,metacopy=off,index=off,xino=off",
		fs, m->id, m->id);
	if (mount("kosa8-cow", cow, "overlay", MS_NOSUID | MS_NODEV | MS_NOATIME, options) < 0)
		return err_errno(e, errno, "mount the layer for what is written");
	return 0;
}

int fs_job_detach(const struct fs_mount *m, const pid_t *inits, size_t n, struct err *e)
{
	char path[RELAY_PATH_SIZE], device[MOUNTINFO_DEVICE_SIZE];
	int r = mountinfo_device(fs_mount_dir(m, path), device);

	if (r < 0) /* it was never mounted */
		return 0;
	if (m->mode == AGENT_MOUNT_RW) {
		cleanup_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd >= 0)
			(void)syncfs(fd);
	}
	return fs_detach_from(inits, n, device, e);
}
