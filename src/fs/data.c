/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a file: by handle. */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* One copy holds up all others of this mount: the guest asks again for the rest. */
#define COPY_MAX (8u << 20)

static int descriptor(struct fs *fs, uint64_t id, const struct node *node)
{
	struct handle *handle = handle_get(&fs->handles, id);

	if (!handle || handle->node != node)
		return -EBADF;
	return handle_fd(fs, handle);
}

int op_read(struct fs *fs, struct request *q)
{
	struct fuse_read_in in;
	int fd;

	if (!take(q, &in, sizeof(in)) || in.size > q->read_max || in.offset > INT64_MAX)
		return -EINVAL;
	if ((fd = descriptor(fs, in.fh, q->node)) < 0)
		return fd;
	ssize_t n = pread(fd, q->out, in.size, (off_t)in.offset);
	return n < 0 ? -errno : (int)n;
}

int op_write(struct fs *fs, struct request *q)
{
	struct fuse_write_in in;
	struct fuse_write_out out = {0};
	int fd;

	if (!take(q, &in, sizeof(in)) || in.size > q->left || in.offset > INT64_MAX)
		return -EINVAL;
	if ((fd = descriptor(fs, in.fh, q->node)) < 0)
		return fd;
	watch_own_node(fs, q->node);
	bool append = in.flags & O_APPEND && !(in.write_flags & FUSE_WRITE_CACHE);
	struct iovec v = {.iov_base = (void *)(uintptr_t)q->at, .iov_len = in.size};
	ssize_t n = pwritev2(fd, &v, 1, append ? 0 : (off_t)in.offset, append ? RWF_APPEND : 0);
	if (n < 0)
		return -errno;
	out.size = (uint32_t)n;
	memcpy(q->out, &out, sizeof(out));
	return sizeof(out);
}

int op_flush(struct fs *fs, struct request *q)
{
	/* Nothing is kept back here: the guest need not ask again. */
	(void)fs;
	(void)q;
	return -ENOSYS;
}

int op_fsync(struct fs *fs, struct request *q)
{
	struct fuse_fsync_in in;
	int fd;

	if (!take(q, &in, sizeof(in)))
		return -EINVAL;
	if ((fd = descriptor(fs, in.fh, q->node)) < 0)
		return fd;
	int r = in.fsync_flags & FUSE_FSYNC_FDATASYNC ? fdatasync(fd) : fsync(fd);
	return r < 0 ? -errno : 0;
}

int op_fallocate(struct fs *fs, struct request *q)
{
	const uint32_t known = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
	struct fuse_fallocate_in in;
	int fd;

	if (!take(q, &in, sizeof(in)) || in.offset > INT64_MAX || in.length > INT64_MAX)
		return -EINVAL;
	if (in.mode & ~known)
		return -EOPNOTSUPP;
	if ((fd = descriptor(fs, in.fh, q->node)) < 0)
		return fd;
	watch_own_node(fs, q->node);
	return fallocate(fd, (int)in.mode, (off_t)in.offset, (off_t)in.length) < 0 ? -errno : 0;
}

int op_lseek(struct fs *fs, struct request *q)
{
	struct fuse_lseek_in in;
	struct fuse_lseek_out out;
	int fd;

	if (!take(q, &in, sizeof(in)) || (in.whence != SEEK_DATA && in.whence != SEEK_HOLE))
		return -EINVAL;
	if ((fd = descriptor(fs, in.fh, q->node)) < 0)
		return fd;
	off_t at = lseek(fd, (off_t)in.offset, (int)in.whence);
	if (at < 0)
		return -errno;
	out.offset = (uint64_t)at;
	memcpy(q->out, &out, sizeof(out));
	return sizeof(out);
}

int op_copy_file_range(struct fs *fs, struct request *q)
{
	struct fuse_copy_file_range_in in;
	struct fuse_write_out out = {0};
	int from, to;

	if (!take(q, &in, sizeof(in)) || in.flags != 0 || in.off_in > INT64_MAX ||
		in.off_out > INT64_MAX)
		return -EINVAL;
	struct node *target = node_get(&fs->nodes, in.nodeid_out);
	if (!target)
		return -ESTALE;
	if ((from = descriptor(fs, in.fh_in, q->node)) < 0)
		return from;
	if ((to = descriptor(fs, in.fh_out, target)) < 0)
		return to;
	watch_own_node(fs, target);
	off_t a = (off_t)in.off_in, b = (off_t)in.off_out;
	ssize_t n =
		copy_file_range(from, &a, to, &b, in.len < COPY_MAX ? (size_t)in.len : COPY_MAX, 0);
	if (n < 0)
		return errno == EXDEV ? -EOPNOTSUPP : -errno;
	out.size = (uint32_t)n;
	memcpy(q->out, &out, sizeof(out));
	return sizeof(out);
}
