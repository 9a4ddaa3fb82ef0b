/* SPDX-License-Identifier: Apache-2.0 */
/* What the guest is shown of a file. The caller's files belong to the mount's owner, or to whom the
 * guest gave them, which an attribute on the host keeps; those of others to nobody. */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define OWNER_XATTR "user.kosa8.owner"
#define NOBODY 65534
#define NEGATIVE_NODE 0

void proc_path(int fd, char ret[static PROC_PATH_SIZE])
{
	(void)snprintf(ret, PROC_PATH_SIZE, "%d", fd);
}

static int statx_at(int fd, const char *name, struct statx *x)
{
	if (statx(fd, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, NODE_STATX, x) <
		0)
		return -errno;
	return 0;
}

int node_any_fd(struct fs *fs, struct node *node)
{
	int r = node_fd(&fs->nodes, node);

	if (r != -ESTALE)
		return r;
	for (struct handle *h = node->handles; h; h = h->next_of_node)
		if (h->fd >= 0)
			return h->fd;
	return r;
}

int node_statx(struct fs *fs, struct node *node, struct statx *ret)
{
	struct node *parent = node->parent;
	int fd, r;

	if (node->fd < 0 && parent) {
		fd = node_fd(&fs->nodes, parent);
		r = fd < 0 ? fd : statx_at(fd, node->name, ret);
		if (r == 0) {
			struct identity i = identity_of(ret);
			if (identity_equal(&i, &node->identity))
				return 0;
		}
		if (r < 0 && r != -ENOENT && r != -ENOTDIR && r != -ESTALE && r != -EACCES)
			return r;
	}
	fd = node_any_fd(fs, node);
	return fd < 0 ? fd : statx_at(fd, "", ret);
}

static bool owner_load(int dir_fd, const char *name, uint32_t *uid, uint32_t *gid)
{
	char path[32 + NODE_NAME_MAX + 1], value[32], end;
	int n = snprintf(
		path, sizeof(path), "/proc/self/fd/%d%s%s", dir_fd, *name ? "/" : "", name);

	if (n < 0 || (size_t)n >= sizeof(path))
		return false;
	ssize_t len = *name ? lgetxattr(path, OWNER_XATTR, value, sizeof(value) - 1)
			    : getxattr(path, OWNER_XATTR, value, sizeof(value) - 1);
	if (len <= 0)
		return false;
	value[len] = '\0';
	return sscanf(value, "%10u:%10u%c", uid, gid, &end) == 2;
}

int owner_store(struct fs *fs, int fd, uint32_t uid, uint32_t gid)
{
	char path[32], value[32];
	int n = snprintf(value, sizeof(value), "%u:%u", uid, gid);

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (uid == fs->owner_uid && gid == fs->owner_gid) {
		if (fs->no_xattr || removexattr(path, OWNER_XATTR) == 0 || errno == ENODATA ||
			errno == EOPNOTSUPP)
			return 0;
		return -errno;
	}
	if (fs->no_xattr)
		return -EPERM;
	if (setxattr(path, OWNER_XATTR, value, (size_t)n, 0) == 0)
		return 0;
	return errno == EOPNOTSUPP ? -EPERM : -errno;
}

void owner_of_new(struct fs *fs, const struct request *q, int dir_fd, const char *name)
{
	if (fs->no_xattr || (q->h.uid == fs->owner_uid && q->h.gid == fs->owner_gid))
		return;
	int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0) {
		(void)owner_store(fs, fd, q->h.uid, q->h.gid);
		close(fd);
	}
}

void attr_fill(struct fs *fs, int dir_fd, const char *name, const struct statx *x, uint64_t id,
	struct fuse_attr *ret)
{
	bool own = x->stx_uid == fs->caller;

	*ret = (struct fuse_attr){
		.ino = x->stx_ino ? x->stx_ino : id,
		.size = x->stx_size,
		.blocks = x->stx_blocks,
		.atime = (uint64_t)x->stx_atime.tv_sec,
		.mtime = (uint64_t)x->stx_mtime.tv_sec,
		.ctime = (uint64_t)x->stx_ctime.tv_sec,
		.atimensec = x->stx_atime.tv_nsec,
		.mtimensec = x->stx_mtime.tv_nsec,
		.ctimensec = x->stx_ctime.tv_nsec,
		.mode = x->stx_mode,
		.nlink = x->stx_nlink,
		.uid = own ? fs->owner_uid : NOBODY,
		.gid = own ? fs->owner_gid : NOBODY,
		.rdev = (uint32_t)makedev(x->stx_rdev_major, x->stx_rdev_minor),
		.blksize = x->stx_blksize,
	};
	/* rdev in the kernel's form (new_encode_dev). */
	ret->rdev = (x->stx_rdev_minor & 0xff) | (x->stx_rdev_major << 8) |
		    ((x->stx_rdev_minor & ~0xffu) << 12);
	if (own && !fs->no_xattr && (S_ISREG(x->stx_mode) || S_ISDIR(x->stx_mode)))
		(void)owner_load(dir_fd, name, &ret->uid, &ret->gid);
}

int entry_fill(struct fs *fs, struct node *parent, int dir_fd, const char *name,
	const struct statx *x, struct fuse_entry_out *ret)
{
	struct node *node;
	int r = node_see(&fs->nodes, parent, name, x, &node);

	if (r < 0)
		return r;
	*ret = (struct fuse_entry_out){.nodeid = node->id};
	attr_fill(fs, dir_fd, name, x, node->id, &ret->attr);
	ret->entry_valid = watch_entry_s(fs, parent);
	ret->attr_valid = watch_attr_s(fs, node, x->stx_nlink);
	node->lookups++;
	return 0;
}

int entry_of(struct fs *fs, struct node *parent, int dir_fd, const char *name,
	struct fuse_entry_out *ret)
{
	struct statx x;
	int r = statx_at(dir_fd, name, &x);

	return r < 0 ? r : entry_fill(fs, parent, dir_fd, name, &x, ret);
}

int op_lookup(struct fs *fs, struct request *q)
{
	struct widened w = NOT_WIDENED;
	struct fuse_entry_out out;
	const char *name;
	int fd, r;

	if ((r = take_name(q, &name)) < 0)
		return r;
	if (q->node->type != S_IFDIR)
		return -ENOTDIR;
	if ((fd = node_any_fd(fs, q->node)) < 0)
		return fd;
	watch_folder(fs, q->node, fd);
	r = entry_of(fs, q->node, fd, name, &out);
	if (widen(fs, q, r, q->node, fd, &w)) {
		r = entry_of(fs, q->node, fd, name, &out);
		narrow(fs, &w);
	}
	if (r == -ENOENT)
		out = (struct fuse_entry_out){
			.nodeid = NEGATIVE_NODE, .entry_valid = watch_entry_s(fs, q->node)};
	else if (r < 0)
		return r;
	memcpy(q->out, &out, sizeof(out));
	return sizeof(out);
}

int op_forget(struct fs *fs, struct request *q)
{
	struct fuse_forget_in in;

	if (q->node && take(q, &in, sizeof(in)))
		node_forget(&fs->nodes, q->node, in.nlookup);
	return FS_NO_REPLY;
}

int op_batch_forget(struct fs *fs, struct request *q)
{
	struct fuse_batch_forget_in in;
	struct fuse_forget_one one;

	if (!take(q, &in, sizeof(in)))
		return FS_NO_REPLY;
	for (uint32_t i = 0; i < in.count && take(q, &one, sizeof(one)); i++) {
		struct node *node = node_get(&fs->nodes, one.nodeid);
		if (node)
			node_forget(&fs->nodes, node, one.nlookup);
	}
	return FS_NO_REPLY;
}

int attr_reply(struct fs *fs, struct request *q, struct node *node)
{
	struct fuse_attr_out out = {0};
	struct statx x;
	int fd, r = node_statx(fs, node, &x);

	if (r < 0)
		return r;
	if (node->fd < 0 && node->parent && (fd = node_fd(&fs->nodes, node->parent)) >= 0)
		attr_fill(fs, fd, node->name, &x, node->id, &out.attr);
	else if ((fd = node_any_fd(fs, node)) >= 0)
		attr_fill(fs, fd, "", &x, node->id, &out.attr);
	else
		return fd;
	out.attr_valid = watch_attr_s(fs, node, x.stx_nlink);
	memcpy(q->out, &out, sizeof(out));
	return sizeof(out);
}

int op_getattr(struct fs *fs, struct request *q)
{
	return attr_reply(fs, q, q->node);
}

int op_readlink(struct fs *fs, struct request *q)
{
	int fd = node_fd(&fs->nodes, q->node);

	if (fd < 0)
		return fd;
	if (q->node->type != S_IFLNK)
		return -EINVAL;
	ssize_t n = readlinkat(fd, "", (char *)q->out, 4096);
	return n < 0 ? -errno : (int)n;
}

int op_access(struct fs *fs, struct request *q)
{
	struct fuse_access_in in;
	struct statx x;
	int fd, r;

	if (!take(q, &in, sizeof(in)))
		return -EINVAL;
	in.mask &= R_OK | W_OK | X_OK;
	if (fs->read_only && in.mask & W_OK)
		return -EROFS;
	if ((r = node_statx(fs, q->node, &x)) < 0)
		return r;
	if (q->h.uid == 0 && x.stx_uid == fs->caller) {
		if (in.mask & X_OK && !S_ISDIR(x.stx_mode) && !(x.stx_mode & 0111))
			return -EACCES;
		return 0;
	}
	if ((fd = node_any_fd(fs, q->node)) < 0)
		return fd;
	return faccessat(fd, "", (int)in.mask, AT_EMPTY_PATH | AT_EACCESS) < 0 ? -errno : 0;
}

int op_statfs(struct fs *fs, struct request *q)
{
	struct fuse_statfs_out out = {0};
	struct statvfs v;
	int fd = node_any_fd(fs, q->node);

	if (fstatvfs(fd < 0 ? fs->root_fd : fd, &v) < 0)
		return -errno;
	out.st = (struct fuse_kstatfs){
		.blocks = v.f_blocks,
		.bfree = v.f_bfree,
		.bavail = v.f_bavail,
		.files = v.f_files,
		.ffree = v.f_ffree,
		.bsize = (uint32_t)v.f_bsize,
		.frsize = (uint32_t)v.f_frsize,
		.namelen = NODE_NAME_MAX,
	};
	memcpy(q->out, &out, sizeof(out));
	return sizeof(out);
}
