/* SPDX-License-Identifier: Apache-2.0 */
/* Opening files and folders, and opening them again after a restore. A file is reached by its
 * O_PATH descriptor, so what is opened is what was checked. */
#include "dir.h"
#include "server.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FLAGS_KEPT (O_ACCMODE | O_SYNC | O_DSYNC | O_DIRECTORY)

/* O_APPEND is not among them: each write says whether it appends, and the guest's kernel may write
 * mapped pages through any handle. */
static int host_flags(uint32_t flags)
{
	return (int)(flags & (FLAGS_KEPT | O_TRUNC)) | O_CLOEXEC | O_NOCTTY;
}

static int reopen(struct fs *fs, int fd, uint32_t flags)
{
	char name[PROC_PATH_SIZE];

	proc_path(fd, name);
	int r = openat(fs->proc_fd, name, host_flags(flags));
	return r < 0 ? -errno : r;
}

static int check_type(int fd, uint32_t flags)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return (flags & O_ACCMODE) == O_RDONLY ? 0 : -EISDIR;
	if (flags & O_DIRECTORY)
		return -ENOTDIR;
	if (S_ISLNK(st.st_mode))
		return -ELOOP;
	return S_ISREG(st.st_mode) ? 0 : -ENXIO;
}

int open_node(struct fs *fs, const struct request *q, struct node *node, uint32_t flags)
{
	struct widened w = NOT_WIDENED;
	int fd = node_any_fd(fs, node), r;

	if (fd < 0)
		return fd;
	if ((r = check_type(fd, flags)) < 0)
		return r;
	if (flags & O_TRUNC)
		watch_own_node(fs, node);
	r = reopen(fs, fd, flags);
	if (r == -EMFILE && fs->nodes.oldest && fs->nodes.oldest != node) {
		node_fd_forget(&fs->nodes, fs->nodes.oldest);
		r = reopen(fs, fd, flags);
	}
	if (widen(fs, q, r, node, fd, &w)) {
		r = reopen(fs, fd, flags);
		narrow(fs, &w);
	}
	return r;
}

int handle_fd(struct fs *fs, struct handle *handle)
{
	/* A handle of the time before a restore was allowed then. */
	static const struct request as_root = {0};

	if (handle->fd < 0) {
		int fd = open_node(fs, &as_root, handle->node, handle->flags);
		if (fd < 0)
			return fd == -EMFILE || fd == -ENFILE ? fd : -ESTALE;
		handle->fd = fd;
	}
	return handle->fd;
}

static int open_reply(
	struct fs *fs, struct node *node, int fd, uint32_t flags, struct fuse_open_out *ret)
{
	struct handle *handle;
	int r = handle_add(&fs->handles, 0, node, fd, flags & FLAGS_KEPT, &handle);

	if (r < 0)
		return r;
	*ret = (struct fuse_open_out){.fh = handle->id};
	if (node->type == S_IFREG && node->parent && watch_entry_s(fs, node->parent) > 1)
		ret->open_flags = FOPEN_KEEP_CACHE;
	return 0;
}

static bool changes(uint32_t flags)
{
	return (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
}

static int open_request(struct fs *fs, struct request *q, uint32_t more)
{
	struct fuse_open_in in;
	struct fuse_open_out out;
	int r;

	if (!take(q, &in, sizeof(in)))
		return -EINVAL;
	if (fs->read_only && changes(in.flags))
		return -EROFS;
	in.flags = (in.flags & ~(uint32_t)O_DIRECTORY) | more;
	cleanup_fd int fd = open_node(fs, q, q->node, in.flags);
	if (fd < 0)
		return fd;
	if ((r = open_reply(fs, q->node, fd, in.flags, &out)) < 0)
		return r;
	(void)fd_take(&fd);
	memcpy(q->out, &out, sizeof(out));
	return sizeof(out);
}

int op_open(struct fs *fs, struct request *q)
{
	return open_request(fs, q, 0);
}

int op_opendir(struct fs *fs, struct request *q)
{
	return open_request(fs, q, O_DIRECTORY);
}

static int create_file(int dir, const char *name, uint32_t flags, mode_t mode)
{
	struct open_how how = {.flags = (uint64_t)host_flags(flags & ~(uint32_t)O_DIRECTORY) |
					O_CREAT | O_EXCL | O_NOFOLLOW,
		.mode = mode & 0777,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};

	long fd = syscall(SYS_openat2, dir, name, &how, sizeof(how));
	return fd < 0 ? -errno : (int)fd;
}

/* The file may be there: then it is opened as OPEN would. */
static int create_or_open(struct fs *fs, struct request *q, const struct fuse_create_in *in,
	const char *name, int dir, struct fuse_entry_out *entry)
{
	struct widened w = NOT_WIDENED;
	int r;

	watch_own(fs, q->node, name);
	int fd = create_file(dir, name, in->flags, in->mode);
	if (widen(fs, q, fd, q->node, dir, &w)) {
		fd = create_file(dir, name, in->flags, in->mode);
		narrow(fs, &w);
	}
	if (fd >= 0)
		owner_of_new(fs, q, dir, name);
	else if (fd != -EEXIST || in->flags & O_EXCL)
		return fd;
	cleanup_fd int made = fd;
	if ((r = entry_of(fs, q->node, dir, name, entry)) < 0 || made >= 0)
		return r < 0 ? r : fd_take(&made);
	struct node *node = node_get(&fs->nodes, entry->nodeid);
	if ((r = open_node(fs, q, node, in->flags & ~(uint32_t)O_DIRECTORY)) < 0)
		node_forget(&fs->nodes, node, 1);
	return r;
}

int op_create(struct fs *fs, struct request *q)
{
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} out;
	struct fuse_create_in in;
	const char *name;
	int dir, r;

	if (!take(q, &in, sizeof(in)))
		return -EINVAL;
	if ((r = take_name(q, &name)) < 0)
		return r;
	if ((dir = node_any_fd(fs, q->node)) < 0)
		return dir;
	cleanup_fd int fd = create_or_open(fs, q, &in, name, dir, &out.entry);
	if (fd < 0)
		return fd;
	struct node *node = node_get(&fs->nodes, out.entry.nodeid);
	if ((r = open_reply(fs, node, fd, in.flags & ~(uint32_t)O_DIRECTORY, &out.open)) < 0) {
		node_forget(&fs->nodes, node, 1);
		return r;
	}
	(void)fd_take(&fd);
	memcpy(q->out, &out, sizeof(out));
	return sizeof(out);
}

int op_release(struct fs *fs, struct request *q)
{
	struct fuse_release_in in;
	struct handle *handle = take(q, &in, sizeof(in)) ? handle_get(&fs->handles, in.fh) : NULL;

	if (!handle)
		return -EBADF;
	handle_close(&fs->handles, &fs->nodes, handle);
	return 0;
}
