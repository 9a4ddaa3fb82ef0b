/* SPDX-License-Identifier: Apache-2.0 */
#include "fs-attach.h"

#include "../base/fd.h"
#include "../base/file.h"
#include "../base/text.h"
#include "mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PATH_MAX_BYTES 4096
#define SHOWN 128

static int fail(struct err *e, int errnum, const char *path, const char *what)
{
	char shown[SHOWN];

	text_escape(path, shown, sizeof(shown));
	return err_set(e, ERR_INVALID, errnum, "%s %s", shown, what);
}

static bool is_below(const char *path, const char *folder)
{
	size_t len = strlen(folder);

	return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

int fs_path_check(const char *path, struct err *e)
{
	static const char *const kernel[] = {"/proc", "/sys", "/dev"};

	if (*path != '/' || path[1] == '\0' || strlen(path) >= PATH_MAX_BYTES)
		return fail(e, EINVAL, path, "is not a path for a mount: it must be absolute");
	for (const char *at = path; *at;) {
		size_t len = strcspn(++at, "/");

		if (len == 0 || strncmp(at, "..", len > 2 ? 3 : len) == 0)
			return fail(e, EINVAL, path,
				"is not a path for a mount: it has an empty part, . or ..");
		at += len;
	}
	for (size_t i = 0; i < sizeof(kernel) / sizeof(*kernel); i++)
		if (is_below(path, kernel[i]))
			return fail(e, EINVAL, path,
				"is not a path for a mount: /proc, /sys and /dev are the kernel's");
	return 0;
}

int fs_tree_open(const char *dir, bool read_only, struct err *e)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
	cleanup_fd int tree =
		(int)syscall(SYS_open_tree, AT_FDCWD, dir, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (tree < 0 || (read_only && syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr,
					      sizeof(attr)) < 0))
		return err_errno(e, errno, "the mount in %s", dir);
	return fd_take(&tree);
}

static int open_in_root(int root, const char *path)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

static bool is_kernels(int fd)
{
	struct statfs st;

	if (fstatfs(fd, &st) < 0)
		return false;
	switch (st.f_type) {
	case PROC_SUPER_MAGIC:
	case SYSFS_MAGIC:
	case CGROUP2_SUPER_MAGIC:
	case DEVPTS_SUPER_MAGIC:
	case TMPFS_MAGIC: /* /dev is one */
		return true;
	default:
		return false;
	}
}

/* The folder at path, made where it is missing. */
static int open_mount_point(const char *path, struct err *e)
{
	cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	cleanup_fd int at = root < 0 ? -errno : fcntl(root, F_DUPFD_CLOEXEC, 3);
	char prefix[PATH_MAX_BYTES];

	if (at < 0)
		return err_errno(e, errno, "root of the container");
	for (size_t len = 0; path[len];) {
		size_t start = len + 1;

		len = start + strcspn(path + start, "/");
		memcpy(prefix, path, len);
		prefix[len] = '\0';
		int next = open_in_root(root, prefix);
		/* EEXIST: a link that leads nowhere. */
		if (next == -ENOENT && !is_kernels(at) && mkdirat(at, prefix + start, 0755) == 0)
			next = open_in_root(root, prefix);
		if (next == -ENOENT && is_kernels(at))
			break;
		if (next == -ENOTDIR || next == -ENOENT)
			return fail(e, ENOTDIR, prefix, "is in the container, but is no folder");
		if (next < 0)
			return err_errno(e, -next, "mount point in the container");
		(void)fd_close(at);
		at = next;
	}
	if (is_kernels(at))
		return fail(e, EINVAL, path, "leads to the kernel's files in the container");
	return fd_take(&at);
}

int fs_tree_attach(int tree, const char *path, struct err *e)
{
	char shown[SHOWN];
	cleanup_fd int at = open_mount_point(path, e);

	if (at < 0)
		return at;
	text_escape(path, shown, sizeof(shown));
	if (syscall(SYS_move_mount, tree, "", at, "",
		    MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return err_errno(e, errno, "mount on %s", shown);
	return 0;
}

static int open_proc_file(pid_t pid, const char *name)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int fs_attach_to(const pid_t *inits, size_t n, const char *dir, bool read_only, const char *path,
	struct err *e)
{
	struct target {
		int ns, tree;
	} *target = calloc(n + 1, sizeof(*target));
	int r = 0;

	if (!target)
		return err_errno(e, ENOMEM, "mount in the containers");
	(void)umask(0);
	/* All clones first: they can only be made from the agent's own namespace. */
	for (size_t i = 0; i < n; i++) {
		target[i].ns = open_proc_file(inits[i], "ns/mnt");
		target[i].tree = target[i].ns < 0 ? -1 : fs_tree_open(dir, read_only, e);
		if (target[i].ns >= 0 && target[i].tree < 0)
			r = err_code(e);
	}
	for (size_t i = 0; i < n && r == 0; i++) {
		if (target[i].ns < 0)
			continue;
		if (setns(target[i].ns, CLONE_NEWNS) < 0)
			r = err_errno(e, errno, "enter a container");
		else
			r = fs_tree_attach(target[i].tree, path, e);
	}
	free(target);
	return r;
}

/* The mounts of one device in one container. */
struct found {
	const char *device;
	size_t len, cap;
	struct place {
		unsigned id;
		char *path;
	} * place;
};

static bool note(void *ctx, const struct mountinfo *m)
{
	struct found *f = ctx;

	if (strcmp(m->device, f->device) != 0)
		return true;
	if (f->len == f->cap) {
		size_t cap = f->cap ? f->cap * 2 : 8;
		struct place *more = realloc(f->place, cap * sizeof(*more));
		if (!more)
			return false;
		f->place = more;
		f->cap = cap;
	}
	f->place[f->len++] = (struct place){.id = m->id, .path = strdup(m->path)};
	return true;
}

static unsigned mount_id(int proc, int fd)
{
	cleanup_buf struct buf text = {0};
	char name[48];

	buf_init(&text, 4096);
	(void)snprintf(name, sizeof(name), "self/fdinfo/%d", fd);
	if (file_read(proc, name, &text) < 0 || !buf_cstr(&text))
		return 0;
	const char *at = strstr((char *)text.data, "mnt_id:");
	return at ? (unsigned)strtoul(at + 7, NULL, 10) : 0;
}

/* By descriptor, so that it is the mount that was found and no other that a link leads to. The
 * caller stands in the agent's /proc. */
static int detach(int proc, const struct place *p)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
	char name[48];

	if (!p->path)
		return -ENOMEM;
	cleanup_fd int fd = (int)syscall(SYS_openat2, AT_FDCWD, p->path, &how, sizeof(how));
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (mount_id(proc, fd) != p->id)
		return 0;
	(void)snprintf(name, sizeof(name), "self/fd/%d", fd);
	return umount2(name, MNT_DETACH) < 0 ? -errno : 0;
}

int fs_detach_from(const pid_t *inits, size_t n, const char *device, struct err *e)
{
	cleanup_fd int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int *ns = calloc(n + 1, sizeof(*ns));
	struct found *found = calloc(n + 1, sizeof(*found));
	int r = proc < 0 || !ns || !found ? -errno : 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		cleanup_fd int info = open_proc_file(inits[i], "mountinfo");

		found[i].device = device;
		ns[i] = info < 0 ? info : open_proc_file(inits[i], "ns/mnt");
		if (ns[i] >= 0 && mountinfo_read(info, note, &found[i]) < 0)
			ns[i] = -1;
	}
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (ns[i] < 0 || found[i].len == 0)
			continue;
		if (setns(ns[i], CLONE_NEWNS) < 0 || fchdir(proc) < 0)
			r = -errno;
		/* The last one first: it may cover others. */
		for (size_t k = found[i].len; r == 0 && k > 0; k--)
			r = detach(proc, &found[i].place[k - 1]);
	}
	free(ns);
	free(found); /* the process ends: the paths go with it */
	return r < 0 ? err_errno(e, -r, "take the mount out of a container") : 0;
}
