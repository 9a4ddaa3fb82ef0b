/* SPDX-License-Identifier: Apache-2.0 */
/* Changing a file's mode, owner, size and times. */
#include "server.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* No set-user-id and set-group-id bits on the host. */
#define MODE_KEPT 01777

static int set_mode(struct fs *fs, struct node *node, int fd, mode_t mode)
{
	char name[PROC_PATH_SIZE];

	if (node->type == S_IFLNK)
		return -EOPNOTSUPP;
	proc_path(fd, name);
	watch_own_node(fs, node);
	return fchmodat(fs->proc_fd, name, mode & MODE_KEPT, 0) < 0 ? -errno : 0;
}

static int set_owner(struct fs *fs, const struct request *q, struct node *node, int fd,
	const struct fuse_setattr_in *in)
{
	struct fuse_attr now;
	struct statx x;
	int r = node_statx(fs, node, &x);

	if (r < 0)
		return r;
	attr_fill(fs, fd, "", &x, node->id, &now);
	uint32_t uid = in->valid & FATTR_UID ? in->uid : now.uid;
	uint32_t gid = in->valid & FATTR_GID ? in->gid : now.gid;
	if (uid == now.uid && gid == now.gid)
		return 0;
	if (q->h.uid != 0 || x.stx_uid != fs->caller)
		return -EPERM;
	/* A link has no attributes; nobody asks who owns it. */
	if (node->type != S_IFREG && node->type != S_IFDIR)
		return 0;
	watch_own_node(fs, node);
	r = owner_store(fs, fd, uid, gid);
	/* As chown(2) does: the guest leaves it to us (FUSE_HANDLE_KILLPRIV_V2). */
	if (r == 0 && x.stx_mode & 06000 && node->type == S_IFREG)
		r = set_mode(fs, node, fd, x.stx_mode);
	return r;
}

static int set_size(
	struct fs *fs, struct request *q, struct node *node, const struct fuse_setattr_in *in)
{
	struct handle *handle = in->valid & FATTR_FH ? handle_get(&fs->handles, in->fh) : NULL;
	cleanup_fd int opened = -1;
	int fd;

	if (in->size > INT64_MAX)
		return -EFBIG;
	if (handle && handle->node == node && (handle->flags & O_ACCMODE) != O_RDONLY)
		fd = handle_fd(fs, handle);
	else
		fd = opened = open_node(fs, q, node, O_WRONLY);
	if (fd < 0)
		return fd;
	watch_own_node(fs, node);
	return ftruncate(fd, (off_t)in->size) < 0 ? -errno : 0;
}

static struct timespec time_of(uint32_t valid, uint32_t bit, uint32_t now, uint64_t s, uint32_t ns)
{
	struct timespec t = {.tv_sec = (time_t)s, .tv_nsec = ns};

	if (valid & now)
		t.tv_nsec = UTIME_NOW;
	else if (!(valid & bit))
		t.tv_nsec = UTIME_OMIT;
	else if (ns >= 1000000000u)
		t.tv_nsec = 0;
	return t;
}

static int set_times(struct fs *fs, struct node *node, int fd, const struct fuse_setattr_in *in)
{
	char name[PROC_PATH_SIZE];
	const struct timespec t[2] = {
		time_of(in->valid, FATTR_ATIME, FATTR_ATIME_NOW, in->atime, in->atimensec),
		time_of(in->valid, FATTR_MTIME, FATTR_MTIME_NOW, in->mtime, in->mtimensec)};

	proc_path(fd, name);
	watch_own_node(fs, node);
	return utimensat(fs->proc_fd, name, t, 0) < 0 ? -errno : 0;
}

int op_setattr(struct fs *fs, struct request *q)
{
	const uint32_t times = FATTR_ATIME | FATTR_MTIME | FATTR_ATIME_NOW | FATTR_MTIME_NOW;
	struct fuse_setattr_in in;
	struct node *node = q->node;
	int fd, r = 0;

	if (!take(q, &in, sizeof(in)))
		return -EINVAL;
	if (in.valid & FATTR_SIZE)
		r = set_size(fs, q, node, &in);
	if (r < 0)
		return r;
	if ((fd = node_any_fd(fs, node)) < 0)
		return fd;
	if (in.valid & (FATTR_UID | FATTR_GID))
		r = set_owner(fs, q, node, fd, &in);
	if (r == 0 && in.valid & FATTR_MODE)
		r = set_mode(fs, node, fd, in.mode);
	if (r == 0 && in.valid & times)
		r = set_times(fs, node, fd, &in);
	return r < 0 ? r : attr_reply(fs, q, node);
}
