/* SPDX-License-Identifier: Apache-2.0 */
/* Changing folders: each operation changes one or two names, and the places of their nodes. */
#include "server.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A change of one folder. */
struct change {
	struct fs *fs;
	struct request *q;
	int dir; /* the folder's descriptor */
	const char *name, *target;
	mode_t mode;
};
typedef int change_step(const struct change *c);

static int step_result(int r)
{
	return r < 0 ? -errno : 0;
}

static int step_symlink(const struct change *c)
{
	return step_result(symlinkat(c->target, c->dir, c->name));
}

static int step_mknod(const struct change *c)
{
	return step_result(mknodat(c->dir, c->name, c->mode, 0));
}

static int step_mkdir(const struct change *c)
{
	return step_result(mkdirat(c->dir, c->name, c->mode));
}

static int step_unlink(const struct change *c)
{
	return step_result(unlinkat(c->dir, c->name, 0));
}

static int step_rmdir(const struct change *c)
{
	return step_result(unlinkat(c->dir, c->name, AT_REMOVEDIR));
}

static int change_run(struct change *c, change_step *step)
{
	struct widened w = NOT_WIDENED;
	int r;

	if (c->q->node->type != S_IFDIR)
		return -ENOTDIR;
	c->dir = node_any_fd(c->fs, c->q->node);
	if (c->dir < 0)
		return c->dir;
	watch_own(c->fs, c->q->node, c->name);
	r = step(c);
	if (widen(c->fs, c->q, r, c->q->node, c->dir, &w)) {
		r = step(c);
		narrow(c->fs, &w);
	}
	return r;
}

static int change_reply(struct change *c)
{
	struct fuse_entry_out out;
	int r = entry_of(c->fs, c->q->node, c->dir, c->name, &out);

	if (r < 0)
		return r;
	memcpy(c->q->out, &out, sizeof(out));
	return sizeof(out);
}

static int make(struct change *c, change_step *step)
{
	int r = change_run(c, step);

	if (r < 0)
		return r;
	if (step != step_symlink)
		owner_of_new(c->fs, c->q, c->dir, c->name);
	return change_reply(c);
}

int op_symlink(struct fs *fs, struct request *q)
{
	struct change c = {.fs = fs, .q = q};
	int r = take_name(q, &c.name);

	if (r == 0)
		r = take_string(q, &c.target);
	return r < 0 ? r : make(&c, step_symlink);
}

int op_mknod(struct fs *fs, struct request *q)
{
	struct change c = {.fs = fs, .q = q};
	struct fuse_mknod_in in;
	int r;

	if (!take(q, &in, sizeof(in)))
		return -EINVAL;
	if ((r = take_name(q, &c.name)) < 0)
		return r;
	mode_t type = in.mode & S_IFMT;
	if (type != 0 && type != S_IFREG && type != S_IFIFO && type != S_IFSOCK)
		return -EPERM;
	c.mode = type | (in.mode & 0777);
	return make(&c, step_mknod);
}

int op_mkdir(struct fs *fs, struct request *q)
{
	struct change c = {.fs = fs, .q = q};
	struct fuse_mkdir_in in;
	int r;

	if (!take(q, &in, sizeof(in)))
		return -EINVAL;
	if ((r = take_name(q, &c.name)) < 0)
		return r;
	c.mode = in.mode & 01777;
	return make(&c, step_mkdir);
}

/* ---- names that go ---- */

/* The node that has its place there, ready to outlive its name. NULL: none is known. */
static struct node *leaving(struct fs *fs, struct node *parent, int dir, const char *name)
{
	struct statx x;

	if (statx(dir, name, AT_SYMLINK_NOFOLLOW, NODE_STATX, &x) < 0)
		return NULL;
	struct identity i = identity_of(&x);
	struct node *node = node_find(&fs->nodes, &i);
	if (!node || !node_is_at(node, parent, name))
		return NULL;
	for (struct handle *h = node->handles; h; h = h->next_of_node)
		(void)handle_fd(fs, h);
	if (x.stx_nlink > 1 && !S_ISDIR(x.stx_mode))
		(void)node_fd(&fs->nodes, node);
	return node;
}

static int take_away(struct fs *fs, struct request *q, change_step *step)
{
	struct change c = {.fs = fs, .q = q};
	struct node *node = NULL;
	int dir, r = take_name(q, &c.name);

	if (r < 0)
		return r;
	if ((dir = node_any_fd(fs, q->node)) >= 0)
		node = leaving(fs, q->node, dir, c.name);
	/* Its own watch tells of its end. */
	if (node && node->wd >= 0)
		watch_drop(fs, node);
	r = change_run(&c, step);
	if (r == 0 && node)
		node_gone(&fs->nodes, node);
	return r;
}

int op_unlink(struct fs *fs, struct request *q)
{
	return take_away(fs, q, step_unlink);
}

int op_rmdir(struct fs *fs, struct request *q)
{
	return take_away(fs, q, step_rmdir);
}

/* ---- two folders ---- */

struct move {
	struct node *from, *to;
	int from_fd, to_fd;
	const char *old, *new;
	uint32_t flags;
};

static int rename_once(const struct move *m)
{
	return renameat2(m->from_fd, m->old, m->to_fd, m->new, m->flags) < 0 ? -errno : 0;
}

static int rename_widened(struct fs *fs, struct request *q, const struct move *m)
{
	struct widened a = NOT_WIDENED, b = NOT_WIDENED;
	int r = rename_once(m);

	if (widen(fs, q, r, m->from, m->from_fd, &a))
		r = rename_once(m);
	if (widen(fs, q, r, m->to, m->to_fd, &b))
		r = rename_once(m);
	narrow(fs, &b);
	narrow(fs, &a);
	return r;
}

static int move(struct fs *fs, struct request *q, struct move *m)
{
	int r;
	cleanup_fd int from = node_any_fd(fs, m->from);

	if (from < 0)
		return from;
	/* The second walk may close what the first has opened. */
	from = fcntl(from, F_DUPFD_CLOEXEC, 0);
	if (from < 0)
		return -errno;
	m->from_fd = from;
	if ((m->to_fd = node_any_fd(fs, m->to)) < 0)
		return m->to_fd;
	struct node *moved = leaving(fs, m->from, m->from_fd, m->old);
	cleanup_fd int to = fcntl(m->to_fd = node_any_fd(fs, m->to), F_DUPFD_CLOEXEC, 0);
	if (to < 0)
		return -errno;
	m->to_fd = to;
	struct node *replaced = leaving(fs, m->to, m->to_fd, m->new);
	watch_own(fs, m->from, m->old);
	watch_own(fs, m->to, m->new);
	if (moved)
		watch_own(fs, moved, "");
	r = rename_widened(fs, q, m);
	if (r < 0 || moved == replaced)
		return r;
	/* Both are held by the guest or by what is below them, but for a place that is the last. */
	if (replaced && m->flags & RENAME_EXCHANGE)
		r = node_place(&fs->nodes, replaced, m->from, m->old);
	else if (replaced)
		node_gone(&fs->nodes, replaced);
	if (moved && r == 0)
		r = node_place(&fs->nodes, moved, m->to, m->new);
	return r == -ENOMEM ? r : 0;
}

static int move_request(struct fs *fs, struct request *q, uint64_t to, uint32_t flags)
{
	struct move m = {.from = q->node, .to = node_get(&fs->nodes, to), .flags = flags};
	int r = take_name(q, &m.old);

	if (r == 0)
		r = take_name(q, &m.new);
	if (r < 0)
		return r;
	if (!m.to)
		return -ESTALE;
	return m.from->type == S_IFDIR && m.to->type == S_IFDIR ? move(fs, q, &m) : -ENOTDIR;
}

int op_rename(struct fs *fs, struct request *q)
{
	struct fuse_rename_in in;

	return take(q, &in, sizeof(in)) ? move_request(fs, q, in.newdir, 0) : -EINVAL;
}

int op_rename2(struct fs *fs, struct request *q)
{
	struct fuse_rename2_in in;

	if (!take(q, &in, sizeof(in)) || in.flags & ~(uint32_t)(RENAME_NOREPLACE | RENAME_EXCHANGE))
		return -EINVAL;
	return move_request(fs, q, in.newdir, in.flags);
}

int op_link(struct fs *fs, struct request *q)
{
	struct change c = {.fs = fs, .q = q};
	struct widened w = NOT_WIDENED;
	struct fuse_link_in in;
	char name[PROC_PATH_SIZE];
	int r;

	if (!take(q, &in, sizeof(in)))
		return -EINVAL;
	if ((r = take_name(q, &c.name)) < 0)
		return r;
	struct node *old = node_get(&fs->nodes, in.oldnodeid);
	if (!old)
		return -ESTALE;
	if (old->type == S_IFDIR || q->node->type != S_IFDIR)
		return old->type == S_IFDIR ? -EPERM : -ENOTDIR;
	cleanup_fd int file = node_any_fd(fs, old);
	if (file < 0)
		return fd_take(&file);
	file = fcntl(file, F_DUPFD_CLOEXEC, 0);
	if (file < 0)
		return -errno;
	if ((c.dir = node_any_fd(fs, q->node)) < 0)
		return c.dir;
	proc_path(file, name);
	watch_own(fs, q->node, c.name);
	r = step_result(linkat(fs->proc_fd, name, c.dir, c.name, AT_SYMLINK_FOLLOW));
	if (widen(fs, q, r, q->node, c.dir, &w)) {
		r = step_result(linkat(fs->proc_fd, name, c.dir, c.name, AT_SYMLINK_FOLLOW));
		narrow(fs, &w);
	}
	return r < 0 ? r : change_reply(&c);
}
