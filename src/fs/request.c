/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include "../base/fd.h"
#include "../base/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

bool take(struct request *q, void *ret, size_t len)
{
	if (q->left < len)
		return false;
	memcpy(ret, q->at, len);
	q->at += len;
	q->left -= len;
	return true;
}

int take_string(struct request *q, const char **ret)
{
	const unsigned char *end = q->left ? memchr(q->at, 0, q->left) : NULL;

	if (!end)
		return -EINVAL;
	*ret = (const char *)q->at;
	q->left -= (size_t)(end + 1 - q->at);
	q->at = end + 1;
	return 0;
}

int take_name(struct request *q, const char **ret)
{
	const char *name;
	int r = take_string(q, &name);

	if (r < 0)
		return r;
	if (!name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strchr(name, '/'))
		return -EINVAL;
	if (strlen(name) > NODE_NAME_MAX)
		return -ENAMETOOLONG;
	*ret = name;
	return 0;
}

static int op_init(struct fs *fs, struct request *q)
{
	const uint32_t wanted = FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ATOMIC_O_TRUNC |
				FUSE_AUTO_INVAL_DATA | FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO |
				FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES | FUSE_CACHE_SYMLINKS |
				FUSE_ASYNC_DIO | FUSE_HANDLE_KILLPRIV_V2;
	struct fuse_init_in in = {0};
	struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .minor = 36};

	if (q->left < 16)
		return -EINVAL;
	(void)take(q, &in, q->left < sizeof(in) ? q->left : sizeof(in));
	/* A younger major asks again with ours. 7.31 is what all structs here need. */
	if (in.major < FUSE_KERNEL_VERSION || (in.major == FUSE_KERNEL_VERSION && in.minor < 31))
		return -EPROTO;
	if (in.major == FUSE_KERNEL_VERSION) {
		fs->minor = in.minor;
		out.flags = in.flags & wanted;
		out.max_readahead = in.max_readahead;
		out.max_background = FS_REQUESTS_MAX;
		out.congestion_threshold = FS_REQUESTS_MAX * 3 / 4;
		out.max_write = FS_DATA_MAX;
		out.time_gran = 1;
		out.max_pages = FS_SLOT_SIZE / 4096;
	}
	memcpy(q->out, &out, sizeof(out));
	return sizeof(out);
}

static int op_ioctl(struct fs *fs, struct request *q)
{
	(void)fs;
	(void)q;
	return -ENOTTY;
}

static int op_nothing(struct fs *fs, struct request *q)
{
	(void)fs;
	(void)q;
	return 0;
}

static int op_unanswered(struct fs *fs, struct request *q)
{
	(void)fs;
	(void)q;
	return FS_NO_REPLY;
}

/* RELAYED: by the relay it is a sign only (event.h). */
enum { ANY_NODE = 1, CHANGES = 2, RELAYED = 4 };

static const struct {
	operation *run;
	unsigned flags;
} operations[] = {
	[FUSE_LOOKUP] = {op_lookup, RELAYED},
	[FUSE_FORGET] = {op_forget, ANY_NODE},
	[FUSE_GETATTR] = {op_getattr, 0},
	[FUSE_SETATTR] = {op_setattr, CHANGES | RELAYED},
	[FUSE_READLINK] = {op_readlink, 0},
	[FUSE_SYMLINK] = {op_symlink, CHANGES | RELAYED},
	[FUSE_MKNOD] = {op_mknod, CHANGES | RELAYED},
	[FUSE_MKDIR] = {op_mkdir, CHANGES | RELAYED},
	[FUSE_UNLINK] = {op_unlink, CHANGES | RELAYED},
	[FUSE_RMDIR] = {op_rmdir, CHANGES | RELAYED},
	[FUSE_RENAME] = {op_rename, CHANGES | RELAYED},
	[FUSE_LINK] = {op_link, CHANGES | RELAYED},
	[FUSE_OPEN] = {op_open, 0},
	[FUSE_READ] = {op_read, 0},
	[FUSE_WRITE] = {op_write, CHANGES | RELAYED},
	[FUSE_STATFS] = {op_statfs, 0},
	[FUSE_RELEASE] = {op_release, ANY_NODE},
	[FUSE_FSYNC] = {op_fsync, 0},
	[FUSE_SETXATTR] = {op_setxattr, 0},
	[FUSE_GETXATTR] = {op_getxattr, 0},
	[FUSE_LISTXATTR] = {op_listxattr, 0},
	[FUSE_REMOVEXATTR] = {op_removexattr, CHANGES | RELAYED},
	[FUSE_FLUSH] = {op_flush, 0},
	[FUSE_INIT] = {op_init, ANY_NODE},
	[FUSE_OPENDIR] = {op_opendir, 0},
	[FUSE_READDIR] = {op_readdir, 0},
	[FUSE_RELEASEDIR] = {op_release, ANY_NODE},
	[FUSE_FSYNCDIR] = {op_fsync, 0},
	[FUSE_ACCESS] = {op_access, 0},
	[FUSE_CREATE] = {op_create, CHANGES | RELAYED},
	[FUSE_INTERRUPT] = {op_unanswered, ANY_NODE},
	[FUSE_DESTROY] = {op_nothing, ANY_NODE},
	[FUSE_IOCTL] = {op_ioctl, ANY_NODE},
	[FUSE_BATCH_FORGET] = {op_batch_forget, ANY_NODE},
	[FUSE_FALLOCATE] = {op_fallocate, CHANGES | RELAYED},
	[FUSE_READDIRPLUS] = {op_readdirplus, 0},
	[FUSE_RENAME2] = {op_rename2, CHANGES | RELAYED},
	[FUSE_LSEEK] = {op_lseek, 0},
	[FUSE_COPY_FILE_RANGE] = {op_copy_file_range, CHANGES | RELAYED},
};

/* What keeps it off may be the folder that it is in. */
static int run_in_widened(struct fs *fs, struct request *q, operation *run)
{
	struct widened w = NOT_WIDENED;
	int fd = q->node && q->node->parent ? node_any_fd(fs, q->node->parent) : -EACCES;

	if (fd < 0)
		return -EACCES;
	/* The operation may close the table's own. */
	cleanup_fd int folder = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (folder < 0 || !widen(fs, q, -EACCES, q->node->parent, folder, &w))
		return -EACCES;
	int r = run(fs, q);
	narrow(fs, &w);
	return r;
}

static int run_operation(struct fs *fs, struct request *q)
{
	uint32_t op = q->h.opcode;

	if (op >= sizeof(operations) / sizeof(operations[0]) || !operations[op].run)
		return -ENOSYS;
	unsigned flags = operations[op].flags;
	if (op != FUSE_INIT && !fs->minor)
		return flags & ANY_NODE ? operations[op].run(fs, q) : -EIO;
	q->node = node_get(&fs->nodes, q->h.nodeid);
	if (!q->node && !(flags & ANY_NODE))
		return -ESTALE;
	if (fs->relay_pid && q->h.pid == fs->relay_pid && flags & RELAYED)
		return event_request(fs, q);
	if (fs->read_only && flags & CHANGES)
		return -EROFS;
	fs->watches.own_len = 0;
	struct request again = *q;
	int r = operations[op].run(fs, q);
	if (r == -EACCES)
		r = run_in_widened(fs, &again, operations[op].run);
	if (fs->watches.own_len > 0)
		watch_read(fs);
	return r;
}

int fs_answer(struct fs *fs, const void *message, size_t len, unsigned char *slot)
{
	unsigned char *reply = fs->out + FRAME_HEADER_SIZE;
	struct request q = {.at = message, .left = len};
	struct fuse_out_header head;

	q.out = slot ? slot : reply + sizeof(head);
	q.read_max = slot ? FS_SLOT_SIZE : FS_DATA_MAX;
	if (!take(&q, &q.h, sizeof(q.h)) || q.h.len != len)
		return -EPROTO;
	/* Extensions stand at the end; none is asked for. */
	int r = run_operation(fs, &q);
	if (r == FS_NO_REPLY)
		return 0;
	head = (struct fuse_out_header){.unique = q.h.unique, .error = r < 0 ? r : 0};
	head.len = (uint32_t)(sizeof(head) + (r > 0 ? (size_t)r : 0));
	memcpy(reply, &head, sizeof(head));
	if (slot && head.len <= FS_SHORT_MAX)
		memcpy(reply + sizeof(head), slot, head.len - sizeof(head));
	return (int)head.len;
}
