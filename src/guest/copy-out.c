/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders that are being read are on a stack of our own, which the limit on paths bounds. Every
 * name is opened below the descriptor of its folder without following links, so a tree that changes
 * meanwhile cannot lead the walk out of it.
 */
#include "copy-tree.h"

#include "../base/fd.h"
#include "../proto/tree.h"
#include "copy-links.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define STAGE_SIZE (256u * 1024)
#define OPAQUE_XATTR "trusted.overlay.opaque"
#define MQUEUE_MAGIC 0x19800202

struct folder {
	DIR *dir;
	dev_t dev;
	size_t path_len; /* of its path in out.path */
};

struct out {
	int fd;
	bool upper;
	bool any; /* an entry was written */
	size_t staged;
	struct folder *stack;
	size_t depth, capacity;
	struct copy_links links;
	size_t path_len;
	char path[TREE_PATH_MAX];
	struct tree_entry entry;
	unsigned char stage[STAGE_SIZE];
};

/* Files there are made up by the kernel as they are read: no size, and no end of them. */
static bool is_kernel_fs(int fd)
{
	static const long kinds[] = {PROC_SUPER_MAGIC, SYSFS_MAGIC, CGROUP2_SUPER_MAGIC,
		CGROUP_SUPER_MAGIC, DEVPTS_SUPER_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC,
		SECURITYFS_MAGIC, BPF_FS_MAGIC, MQUEUE_MAGIC};
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if ((long)fs.f_type == kinds[i])
			return true;
	return false;
}

static int check_source(const struct copy_root *root, const char *path,
	const struct copy_place_at *at, struct err *e)
{
	struct stat st;
	cleanup_fd int fd =
		openat(at->fd, *at->name ? at->name : ".", O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "no such file in the %s: %.200s",
			root->what, path);
	if (fd < 0)
		return err_errno(e, errno, "%.200s in the %s", path, root->what);
	if (fstat(fd, &st) < 0)
		return err_errno(e, errno, "%.200s in the %s", path, root->what);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode))
		return err_set(e, ERR_INVALID, EINVAL,
			"%.200s in the %s is no file, folder or link", path, root->what);
	if (is_kernel_fs(fd))
		return err_set(e, ERR_INVALID, EINVAL,
			"%.200s is on a file system of the kernel's: it can be read in the %s "
			"only, for example with cat",
			path, root->what);
	return 0;
}

int copy_out_find(
	const struct copy_root *root, const char *path, struct copy_place_at *ret, struct err *e)
{
	struct copy_place_at at;
	int r = copy_find(root, path, &at, e);

	if (r < 0)
		return r;
	r = check_source(root, path, &at, e);
	if (r < 0) {
		(void)fd_close(at.fd);
		return r;
	}
	*ret = at;
	return 0;
}

static int flush(struct out *o, struct err *e)
{
	int r = fd_write_all(o->fd, o->stage, o->staged);

	o->staged = 0;
	return r < 0 ? err_errno(e, -r, "send the files") : 0;
}

static int put(struct out *o, const void *data, size_t len, struct err *e)
{
	if (o->staged + len > STAGE_SIZE) {
		int r = flush(o, e);
		if (r < 0)
			return r;
	}
	memcpy(o->stage + o->staged, data, len);
	o->staged += len;
	return 0;
}

static int unreadable(const struct out *o, int errnum, struct err *e)
{
	return err_errno(e, errnum, "read %.200s", *o->path ? o->path : "it");
}

static int put_entry(struct out *o, enum tree_type type, const struct stat *st, struct err *e)
{
	cleanup_buf struct buf b = {0};
	struct tree_entry *m = &o->entry;

	buf_init(&b, TREE_HEADER_MAX + 4);
	o->any = true;
	m->type = type;
	m->mode = st->st_mode & 07777;
	m->uid = st->st_uid;
	m->gid = st->st_gid;
	m->mtime_ns = tree_time_ns(st->st_mtim);
	m->size = type == TREE_FILE ? (uint64_t)st->st_size : 0;
	memcpy(m->path, o->path, o->path_len + 1);
	if (type != TREE_SYMLINK && type != TREE_HARDLINK)
		m->target[0] = '\0';
	tree_entry_encode(&b, m);
	if (buf_failed(&b))
		return err_errno(e, ENOMEM, "send the files");
	return put(o, b.data, b.len, e);
}

/* Exactly `left` bytes, whatever became of the file. */
static int put_content(struct out *o, int file, uint64_t left, struct err *e)
{
	bool ended = false;

	while (left > 0) {
		int r = o->staged == STAGE_SIZE ? flush(o, e) : 0;
		if (r < 0)
			return r;
		size_t room = STAGE_SIZE - o->staged, len = left < room ? (size_t)left : room;
		ssize_t n = ended ? 0 : read(file, o->stage + o->staged, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return unreadable(o, errno, e);
		if (n == 0) {
			ended = true;
			memset(o->stage + o->staged, 0, len);
			n = (ssize_t)len;
		}
		o->staged += (size_t)n;
		left -= (uint64_t)n;
	}
	return 0;
}

static int send_file(struct out *o, int dirfd, const char *name, struct err *e)
{
	struct stat st;
	const char *first = NULL;
	/* Without O_NONBLOCK a pipe that took the file's name would hold us. */
	cleanup_fd int fd =
		openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return unreadable(o, errno, e);
	if (!S_ISREG(st.st_mode))
		return put_entry(o, TREE_SKIPPED, &st, e);
	if (st.st_nlink > 1)
		first = copy_links_note(&o->links, st.st_dev, st.st_ino, o->path);
	if (first && *o->path) {
		memcpy(o->entry.target, first, strlen(first) + 1);
		return put_entry(o, TREE_HARDLINK, &st, e);
	}
	int r = put_entry(o, TREE_FILE, &st, e);
	return r < 0 ? r : put_content(o, fd, (uint64_t)st.st_size, e);
}

static int send_link(
	struct out *o, int dirfd, const char *name, const struct stat *st, struct err *e)
{
	ssize_t n = readlinkat(dirfd, name, o->entry.target, TREE_PATH_MAX);

	if (n < 0 && (errno == ENOENT || errno == EINVAL))
		return 0;
	if (n <= 0 || n == TREE_PATH_MAX)
		return err_errno(e, n < 0 ? errno : ENAMETOOLONG, "read the link %.200s", o->path);
	o->entry.target[n] = '\0';
	return put_entry(o, TREE_SYMLINK, st, e);
}

/* Takes fd. */
static int push(struct out *o, int fd, dev_t dev, struct err *e)
{
	if (o->depth == o->capacity) {
		size_t capacity = o->capacity ? 2 * o->capacity : 16;
		struct folder *stack = reallocarray(o->stack, capacity, sizeof(*stack));
		if (!stack) {
			(void)fd_close(fd);
			return unreadable(o, ENOMEM, e);
		}
		o->stack = stack;
		o->capacity = capacity;
	}
	DIR *dir = fdopendir(fd);
	if (!dir) {
		int errnum = errno;
		(void)fd_close(fd);
		return unreadable(o, errnum, e);
	}
	o->stack[o->depth++] = (struct folder){.dir = dir, .dev = dev, .path_len = o->path_len};
	return 0;
}

static bool is_opaque(int fd)
{
	char value[1];

	return fgetxattr(fd, OPAQUE_XATTR, value, sizeof(value)) == 1 && *value == 'y';
}

static int send_folder(struct out *o, int dirfd, const char *name, struct err *e)
{
	struct stat st;
	cleanup_fd int fd =
		openat(dirfd, *name ? name : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) && o->depth > 0)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return unreadable(o, errno, e);
	int r = put_entry(o, TREE_DIR, &st, e);
	if (r == 0 && o->upper && is_opaque(fd))
		r = put_entry(o, TREE_OPAQUE, &st, e);
	bool mounted = o->depth > 0 && st.st_dev != o->stack[o->depth - 1].dev;
	if (r < 0 || (mounted && is_kernel_fs(fd)))
		return r;
	return push(o, fd_take(&fd), st.st_dev, e);
}

static int send_name(struct out *o, int dirfd, const char *name, struct err *e)
{
	struct stat st;

	if (*name == '\0')
		return send_folder(o, dirfd, name, e);
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : unreadable(o, errno, e);
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		return send_file(o, dirfd, name, e);
	case S_IFDIR:
		return send_folder(o, dirfd, name, e);
	case S_IFLNK:
		return send_link(o, dirfd, name, &st, e);
	case S_IFCHR:
		if (o->upper && st.st_rdev == 0)
			return put_entry(o, TREE_WHITEOUT, &st, e);
		return put_entry(o, TREE_SKIPPED, &st, e);
	default:
		return put_entry(o, TREE_SKIPPED, &st, e);
	}
}

/* Adds a name to the path of the folder on top of the stack. */
static int enter_name(struct out *o, const char *name, struct err *e)
{
	size_t at = o->stack[o->depth - 1].path_len, len = strlen(name);

	if (at + 1 + len >= sizeof(o->path))
		return err_set(e, ERR_LIMIT, ENAMETOOLONG,
			"a path below it has more than %d bytes: %.100s...", TREE_PATH_MAX - 1,
			o->path);
	if (at > 0)
		o->path[at++] = '/';
	memcpy(o->path + at, name, len + 1);
	o->path_len = at + len;
	return 0;
}

/* The next name of the folder on top, or its end. */
static int step(struct out *o, struct err *e)
{
	struct folder *top = &o->stack[o->depth - 1];

	errno = 0;
	const struct dirent *d = readdir(top->dir);
	o->path_len = top->path_len;
	o->path[o->path_len] = '\0';
	if (!d) {
		if (errno != 0 && errno != ENOENT)
			return unreadable(o, errno, e);
		(void)closedir(top->dir);
		o->depth--;
		return 0;
	}
	if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
		return 0;
	int r = enter_name(o, d->d_name, e);
	return r < 0 ? r : send_name(o, dirfd(top->dir), d->d_name, e);
}

static int send_all(struct out *o, const struct copy_place_at *from, struct err *e)
{
	const struct stat none = {0};
	int r = send_name(o, from->fd, from->name, e);

	if (r == 0 && !o->any)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "%.200s is gone", from->name);
	while (r == 0 && o->depth > 0)
		r = step(o, e);
	o->path_len = 0;
	o->path[0] = '\0';
	if (r == 0)
		r = put_entry(o, TREE_END, &none, e);
	return r < 0 ? r : flush(o, e);
}

int copy_out_send(const struct copy_place_at *from, bool upper, int fd, struct err *e)
{
	struct out *o = calloc(1, sizeof(*o));

	if (!o)
		return err_errno(e, ENOMEM, "send the files");
	o->fd = fd;
	o->upper = upper;
	copy_links_init(&o->links);
	int r = send_all(o, from, e);
	while (o->depth > 0)
		(void)closedir(o->stack[--o->depth].dir);
	copy_links_release(&o->links);
	free(o->stack);
	free(o);
	return r;
}
