/* SPDX-License-Identifier: Apache-2.0 */
/*
 * u32 magic, u32 version, u64 next node, u64 next handle, u64 device of the root, u32 minor of
 * FUSE, u32 owner's uid, u32 gid, u32 relay's pid, u32 nodes, u32 handles; then the nodes: u64 id,
 * dev, ino, i64 born, u64 lookups, u64 parent (0: none), u16 type, u32 length and name; then the
 * handles: u64 id, u64 node, u32 flags. A name's folder may come later.
 */
#include "table.h"

#include "server.h"

#include "../base/cursor.h"
#include "../base/fd.h"
#include "../base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x7366386bu
#define VERSION 1
#define NODE_SIZE_MAX (6 * 8 + 2 + 4 + NODE_NAME_MAX)
#define TABLE_MAX ((size_t)NODES_MAX * 128)

static void put_node(struct buf *b, const struct node *n)
{
	buf_put_u64(b, n->id);
	buf_put_u64(b, n->identity.dev);
	buf_put_u64(b, n->identity.ino);
	buf_put_u64(b, (uint64_t)n->identity.born_ns);
	buf_put_u64(b, n->lookups);
	buf_put_u64(b, n->parent ? n->parent->id : 0);
	buf_put_u16(b, n->type);
	buf_put_str(b, n->name ? n->name : "");
}

static void put_table(struct buf *b, const struct fs *fs)
{
	buf_put_u32(b, MAGIC);
	buf_put_u32(b, VERSION);
	buf_put_u64(b, fs->nodes.next);
	buf_put_u64(b, fs->handles.next);
	buf_put_u64(b, fs->nodes.root->identity.dev);
	buf_put_u32(b, fs->minor);
	buf_put_u32(b, fs->owner_uid);
	buf_put_u32(b, fs->owner_gid);
	buf_put_u32(b, fs->relay_pid);
	buf_put_u32(b, (uint32_t)fs->nodes.count - 1);
	buf_put_u32(b, (uint32_t)fs->handles.count);
	for (size_t i = 0; i < fs->nodes.slots; i++)
		for (const struct node *n = fs->nodes.by_id[i]; n; n = n->next_id)
			if (n != fs->nodes.root)
				put_node(b, n);
	for (size_t i = 0; i < HANDLE_SLOTS; i++) {
		for (const struct handle *h = fs->handles.slots[i]; h; h = h->next_in_slot) {
			buf_put_u64(b, h->id);
			buf_put_u64(b, h->node->id);
			buf_put_u32(b, h->flags);
		}
	}
}

int table_save(struct fs *fs, int fd)
{
	struct buf b;
	int r = -E2BIG;

	buf_init(&b, TABLE_MAX);
	put_table(&b, fs);
	if (!buf_failed(&b))
		r = fd_write_all(fd, b.data, b.len);
	buf_release(&b);
	return r;
}

/* ---- reading ---- */

struct parent_of {
	struct node *node;
	uint64_t parent;
	char *name;
};

static bool valid_name(const char *name)
{
	return name && name[0] && !strchr(name, '/') && strcmp(name, ".") != 0 &&
	       strcmp(name, "..") != 0;
}

static int get_node(struct cursor *c, struct fs *fs, uint64_t old_dev, struct parent_of *ret)
{
	struct identity i;
	uint64_t id = cursor_u64(c);

	i.dev = cursor_u64(c);
	i.ino = cursor_u64(c);
	i.born_ns = (int64_t)cursor_u64(c);
	uint64_t lookups = cursor_u64(c);
	ret->parent = cursor_u64(c);
	uint16_t type = cursor_u16(c);
	ret->name = cursor_strdup(c, NODE_NAME_MAX);
	/* Device numbers change when the host starts anew. */
	if (i.dev == old_dev)
		i.dev = fs->nodes.root->identity.dev;
	if (c->failed || !ret->name || (ret->parent != 0 && !valid_name(ret->name)) ||
		id <= NODE_ROOT || id >= fs->nodes.next || node_get(&fs->nodes, id) ||
		(type & ~S_IFMT) != 0)
		return -EBADMSG;
	int r = node_insert(&fs->nodes, id, &i, type, &ret->node);
	if (r == 0)
		ret->node->lookups = lookups;
	return r;
}

static int place_all(struct fs *fs, const struct parent_of *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct node *parent = p[i].parent ? node_get(&fs->nodes, p[i].parent) : NULL;
		if (!p[i].parent)
			continue;
		if (!parent || parent->type != S_IFDIR)
			return -EBADMSG;
		int r = node_place(&fs->nodes, p[i].node, parent, p[i].name);
		if (r < 0)
			return r == -ESTALE ? -EBADMSG : r;
	}
	return 0;
}

static int get_nodes(struct cursor *c, struct fs *fs, uint64_t dev, struct parent_of *p, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = get_node(c, fs, dev, &p[i]);
	return r < 0 ? r : place_all(fs, p, n);
}

static int get_handles(struct cursor *c, struct fs *fs, size_t n)
{
	struct handle *handle;
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		uint64_t id = cursor_u64(c);
		struct node *node = node_get(&fs->nodes, cursor_u64(c));
		uint32_t flags = cursor_u32(c);
		bool writes = (flags & O_ACCMODE) != O_RDONLY;
		if (c->failed || !node || id == 0 || id >= fs->handles.next ||
			handle_get(&fs->handles, id) || (fs->read_only && writes))
			return -EBADMSG;
		r = handle_add(&fs->handles, id, node, -1,
			flags & (O_ACCMODE | O_SYNC | O_DSYNC | O_DIRECTORY), &handle);
	}
	return r;
}

static void free_parents(struct parent_of *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(p[i].name);
	free(p);
}

static int get_table(struct cursor *c, struct fs *fs)
{
	if (cursor_u32(c) != MAGIC || cursor_u32(c) != VERSION)
		return -EBADMSG;
	fs->nodes.next = cursor_u64(c);
	fs->handles.next = cursor_u64(c);
	uint64_t dev = cursor_u64(c);
	fs->minor = cursor_u32(c);
	fs->owner_uid = cursor_u32(c);
	fs->owner_gid = cursor_u32(c);
	fs->relay_pid = cursor_u32(c);
	size_t nodes = cursor_u32(c), handles = cursor_u32(c);
	if (c->failed || nodes >= NODES_MAX || handles > HANDLES_MAX || nodes > c->left ||
		fs->nodes.next <= NODE_ROOT || fs->nodes.next > INT64_MAX ||
		fs->handles.next == 0 || fs->handles.next > INT64_MAX)
		return -EBADMSG;
	struct parent_of *p = calloc(nodes + 1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	int r = get_nodes(c, fs, dev, p, nodes);
	if (r == 0)
		r = get_handles(c, fs, handles);
	free_parents(p, nodes);
	return r < 0 ? r : cursor_done(c) ? 0 : -EBADMSG;
}

int table_restore(struct fs *fs, int fd, struct err *e)
{
	struct cursor c;
	struct buf b;
	int r;

	buf_init(&b, TABLE_MAX);
	if ((r = fd_read_all(fd, &b)) < 0) {
		buf_release(&b);
		return err_errno(e, -r, "reading the table of the mount's files");
	}
	cursor_init(&c, b.data, b.len);
	r = get_table(&c, fs);
	buf_release(&b);
	/* What the guest keeps is of another time. */
	if (r == 0)
		notify_all(fs);
	if (r == -EBADMSG)
		return err_set(
			e, ERR_CORRUPT, EBADMSG, "the table of the mount's files is damaged");
	return r < 0 ? err_errno(e, -r, "the table of the mount's files") : 0;
}
