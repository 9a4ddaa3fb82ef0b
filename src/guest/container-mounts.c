/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container finds mounted, after the OCI runtime specification (config-linux.md: default
 * filesystems and devices) and docker's lists of masked and read-only paths. An image may lack any
 * of the folders; they are made in the container's own layer. The image may be hostile: a mount
 * point of ours must be a real folder, else a masked path could be led elsewhere by a link.
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
} mounts[] = {
	{"proc", "/proc", "proc", LOCKED, NULL},
	{"sysfs", "/sys", "sysfs", LOCKED | MS_RDONLY, NULL},
	{"cgroup", "/sys/fs/cgroup", "cgroup2", LOCKED | MS_RDONLY, NULL},
	{"tmpfs", "/dev", "tmpfs", MS_NOSUID | MS_STRICTATIME, "mode=755,size=64k"},
	{"devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
		"newinstance,ptmxmode=0666,mode=0620,gid=5"},
	{"shm", "/dev/shm", "tmpfs", LOCKED, "mode=1777,size=64m"},
	{"mqueue", "/dev/mqueue", "mqueue", LOCKED, NULL},
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

static const char *const file_names[] = {"hostname", "hosts", "resolv.conf", "machine-id"};
_Static_assert(sizeof(file_names) / sizeof(*file_names) == CONTAINER_FILE_COUNT, "names");

/* A real folder of that name, made if it is missing. */
static int need_folder(const char *path, struct err *e)
{
	struct stat st;

	if (mkdir(path, 0755) == 0)
		return 0;
	if (errno != EEXIST)
		return err_errno(e, errno, "make %s in the container", path);
	if (lstat(path, &st) < 0)
		return err_errno(e, errno, "%s in the container", path);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, ENOTDIR, "the image's %s is not a folder", path);
	return 0;
}

static int mount_all(struct err *e)
{
	for (size_t i = 0; i < sizeof(mounts) / sizeof(*mounts); i++) {
		int r = need_folder(mounts[i].target, e);

		if (r < 0)
			return r;
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

static int attach_tree(int tree, int dirfd, const char *name, struct err *e)
{
	if (syscall(SYS_move_mount, tree, "", dirfd, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_errno(e, errno, "mount %s in the container", name);
	return 0;
}

/* Images often have links here, to a daemon's file that no container has. */
static int mount_etc(const struct container_trees *trees, struct err *e)
{
	int r = need_folder("/etc", e);

	if (r < 0)
		return r;
	int dirfd = open("/etc", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	for (int i = 0; dirfd >= 0 && r == 0 && i < CONTAINER_FILE_COUNT; i++) {
		struct stat st;
		const char *name = file_names[i];

		if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode) &&
			!S_ISDIR(st.st_mode))
			(void)unlinkat(dirfd, name, 0);
		(void)mknodat(dirfd, name, S_IFREG | 0644, 0);
		r = attach_tree(trees->files[i], dirfd, name, e);
	}
	(void)close(dirfd);
	return r;
}

int container_mount(const struct container *c, const struct container_trees *trees, struct err *e)
{
	int r;

	(void)umask(0);
	if (sethostname(c->hostname, strlen(c->hostname)) < 0)
		return err_errno(e, errno, "hostname of the container");
	if ((r = mount_all(e)) < 0 || (r = make_devices(e)) < 0 || (r = mask_paths(e)) < 0 ||
		(r = mount_etc(trees, e)) < 0)
		return r;
	/* Last: other containers can change what is in it while this one is being made. */
	if ((r = need_folder("/workspace", e)) < 0)
		return r;
	return attach_tree(trees->workspace, AT_FDCWD, "/workspace", e);
}
