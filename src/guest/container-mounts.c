/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container finds mounted, after the OCI runtime specification (config-linux.md: default
 * filesystems and devices) and docker's lists of masked and read-only paths. The mount points are
 * real folders of the container's own layer (keeper.h), whatever the image has there: nothing can
 * be led elsewhere by a link.
 */
#include "container.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define LOCKED (MS_NOSUID | MS_NODEV | MS_NOEXEC)

static const struct {
	const char *source, *target, *type;
	unsigned long flags;
	const char *data;
	bool make;
} mounts[] = {
	{"proc", "/proc", "proc", LOCKED, NULL, false},
	{"sysfs", "/sys", "sysfs", LOCKED | MS_RDONLY, NULL, false},
	{"cgroup", "/sys/fs/cgroup", "cgroup2", LOCKED | MS_RDONLY, NULL, false},
	{"tmpfs", "/dev", "tmpfs", MS_NOSUID | MS_STRICTATIME, "mode=755,size=64k", false},
	{"devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
		"newinstance,ptmxmode=0666,mode=0620,gid=5", true},
	{"shm", "/dev/shm", "tmpfs", LOCKED, "mode=1777,size=64m", true},
	{"mqueue", "/dev/mqueue", "mqueue", LOCKED, NULL, true},
};

static const struct {
	const char *path;
	unsigned minor, major;
} devices[] = {
	{"/dev/null", 3, 1},
	{"/dev/zero", 5, 1},
	{"/dev/full", 7, 1},
	{"/dev/random", 8, 1},
	{"/dev/urandom", 9, 1},
	{"/dev/tty", 0, 5},
};

static const struct {
	const char *path, *target;
} links[] = {
	{"/dev/fd", "/proc/self/fd"},
	{"/dev/stdin", "/proc/self/fd/0"},
	{"/dev/stdout", "/proc/self/fd/1"},
	{"/dev/stderr", "/proc/self/fd/2"},
	{"/dev/core", "/proc/kcore"},
	{"/dev/ptmx", "pts/ptmx"},
};

static const char *const masked_files[] = {"/proc/kcore", "/proc/keys", "/proc/latency_stats",
	"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug"};
static const char *const masked_folders[] = {"/proc/asound", "/proc/acpi", "/proc/scsi",
	"/sys/firmware", "/sys/devices/virtual/powercap"};
static const char *const read_only[] = {
	"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"};

static int mount_all(struct err *e)
{
	for (size_t i = 0; i < sizeof(mounts) / sizeof(*mounts); i++) {
		if (mounts[i].make && mkdir(mounts[i].target, 0755) < 0)
			return err_errno(e, errno, "make %s", mounts[i].target);
		if (mount(mounts[i].source, mounts[i].target, mounts[i].type, mounts[i].flags,
			    mounts[i].data) < 0)
			return err_errno(e, errno, "mount %s in the container", mounts[i].target);
	}
	return 0;
}

static int make_devices(struct err *e)
{
	for (size_t i = 0; i < sizeof(devices) / sizeof(*devices); i++)
		if (mknod(devices[i].path, S_IFCHR | 0666,
			    makedev(devices[i].major, devices[i].minor)) < 0)
			return err_errno(e, errno, "make %s", devices[i].path);
	for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++)
		if (symlink(links[i].target, links[i].path) < 0)
			return err_errno(e, errno, "make %s", links[i].path);
	return 0;
}

/* A path that this kernel does not have needs no hiding. */
static int mount_over(
	const char *source, const char *path, const char *type, unsigned long flags, struct err *e)
{
	if (mount(source, path, type, flags, NULL) < 0 && errno != ENOENT)
		return err_errno(e, errno, "hide %s from the container", path);
	return 0;
}

static int mask_paths(struct err *e)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(masked_files) / sizeof(*masked_files); i++)
		r = mount_over("/dev/null", masked_files[i], NULL, MS_BIND, e);
	for (size_t i = 0; r == 0 && i < sizeof(masked_folders) / sizeof(*masked_folders); i++)
		r = mount_over("tmpfs", masked_folders[i], "tmpfs", LOCKED | MS_RDONLY, e);
	for (size_t i = 0; r == 0 && i < sizeof(read_only) / sizeof(*read_only); i++) {
		r = mount_over(read_only[i], read_only[i], NULL, MS_BIND | MS_REC, e);
		if (r == 0)
			r = mount_over(NULL, read_only[i], NULL,
				MS_BIND | MS_REMOUNT | MS_RDONLY | LOCKED, e);
	}
	return r;
}

int container_mount(const struct container *c, int workspace, struct err *e)
{
	int r;

	(void)umask(0);
	if (sethostname(c->hostname, strlen(c->hostname)) < 0)
		return err_errno(e, errno, "hostname of the container");
	if ((r = mount_all(e)) < 0 || (r = make_devices(e)) < 0 || (r = mask_paths(e)) < 0)
		return r;
	if (syscall(SYS_move_mount, workspace, "", AT_FDCWD, "/workspace",
		    MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_errno(e, errno, "mount /workspace in the container");
	return fs_view_attach(e);
}
