/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of a squashfs image, in the order in which Linux checks them: inodes, directories,
 * fragments, export, ids, attributes (Documentation/filesystems/squashfs.rst).
 *
 * A directory's listing holds the place of each of its inodes, so a folder is written after all
 * that is in it; its inode names its parent's number, so numbers are given out before. A listing
 * can only cheaply hold numbers that are close together: those of one folder follow each other.
 */
#include "squash-internal.h"

#include "../../base/cursor.h"

#include <errno.h>
#include <sqfs/dir_writer.h>
#include <sqfs/error.h>
#include <sqfs/id_table.h>
#include <sqfs/inode.h>
#include <sqfs/meta_writer.h>
#include <sqfs/xattr_writer.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NO_XATTRS UINT32_MAX

struct names {
	struct squash *s;
	sqfs_meta_writer_t *inodes;
	sqfs_meta_writer_t *listings; /* in memory until the inode table is complete */
	sqfs_dir_writer_t *dirs;
	sqfs_id_table_t *ids;
	sqfs_xattr_writer_t *xattrs;
	uint32_t count;
	bool ids_full;
};

static void names_release(struct names *n)
{
	sqfs_destroy(n->dirs);
	sqfs_destroy(n->inodes);
	sqfs_destroy(n->listings);
	sqfs_destroy(n->ids);
	sqfs_destroy(n->xattrs);
}

static void sqfs_inode_freep(sqfs_inode_generic_t **i)
{
	sqfs_free(*i);
}
#define cleanup_inode __attribute__((cleanup(sqfs_inode_freep)))

static bool is_dir(const struct tree_inode *i)
{
	return S_ISDIR(i->attr.mode);
}

/* Recursion is bounded by UNPACK_DEPTH_MAX, here and in write_dir(). */
static void give_numbers(struct names *n, struct tree_inode *dir)
{
	struct tree_node *c;

	for (c = dir->children; c; c = c->right)
		if (c->inode->number == 0)
			c->inode->number = ++n->count;
	for (c = dir->children; c; c = c->right)
		if (is_dir(c->inode))
			give_numbers(n, c->inode);
}

static int put_xattrs(struct names *n, const struct tree_inode *i, uint32_t *ret)
{
	struct cursor c;
	int r;

	*ret = NO_XATTRS;
	if (i->xattrs_len == 0)
		return 0;
	r = sqfs_xattr_writer_begin(n->xattrs, 0);
	cursor_init(&c, i->xattrs, i->xattrs_len);
	while (r == 0 && c.left > 0 && !c.failed) {
		size_t name_len = cursor_u16(&c), value_len = cursor_u32(&c);
		const char *name = (const char *)cursor_bytes(&c, name_len);
		const unsigned char *value = cursor_bytes(&c, value_len);
		r = name && value ? sqfs_xattr_writer_add(n->xattrs, name, value, value_len)
				  : SQFS_ERROR_INTERNAL;
	}
	return r < 0 ? r : sqfs_xattr_writer_end(n->xattrs, ret);
}

/* Owner, mode, time and attributes; then the inode goes to its table. */
static int write_inode(
	struct names *n, struct tree_inode *i, sqfs_inode_generic_t *out, uint32_t xattrs)
{
	uint64_t block;
	uint32_t offset;
	int r;

	out->base.mode = (uint16_t)i->attr.mode;
	out->base.mod_time = i->attr.mtime;
	out->base.inode_number = i->number;
	r = sqfs_id_table_id_to_index(n->ids, i->attr.uid, &out->base.uid_idx);
	if (r == 0)
		r = sqfs_id_table_id_to_index(n->ids, i->attr.gid, &out->base.gid_idx);
	n->ids_full = r == SQFS_ERROR_OVERFLOW;
	if (r == 0 && xattrs != NO_XATTRS)
		r = sqfs_inode_set_xattr_index(out, xattrs);
	if (r < 0)
		return r;
	sqfs_meta_writer_get_position(n->inodes, &block, &offset);
	i->ref = block << 16 | offset;
	i->written = true;
	return sqfs_meta_writer_write_inode(n->inodes, out);
}

static int write_file(struct names *n, struct tree_inode *i, uint32_t xattrs)
{
	cleanup_inode sqfs_inode_generic_t *small = NULL;
	int r = i->is_small ? squash_small_inode(i, &small) : 0;
	sqfs_inode_generic_t *out = i->is_small ? small : i->data;

	if (r < 0)
		return r;
	if (!out)
		return SQFS_ERROR_INTERNAL;
	if (i->names > 1 || xattrs != NO_XATTRS) {
		r = sqfs_inode_make_extended(out);
		if (r == 0) /* a basic inode has one name, without saying so */
			out->data.file_ext.nlink = i->names;
	} else if (out->base.type == SQFS_INODE_EXT_FILE) {
		out->data.file_ext.nlink = 1;
	}
	return r < 0 ? r : write_inode(n, i, out, xattrs);
}

static int write_symlink(struct names *n, struct tree_inode *i, uint32_t xattrs)
{
	size_t len = strlen(i->target);
	cleanup_inode sqfs_inode_generic_t *out = calloc(1, sizeof(*out) + len + 1);

	if (!out)
		return SQFS_ERROR_ALLOC;
	out->base.type = SQFS_INODE_SLINK;
	out->data.slink.nlink = i->names;
	out->data.slink.target_size = (uint32_t)len;
	out->payload_bytes_available = (uint32_t)len + 1;
	out->payload_bytes_used = (uint32_t)len;
	memcpy(out->extra, i->target, len);
	return write_inode(n, i, out, xattrs);
}

static int write_special(struct names *n, struct tree_inode *i, uint32_t xattrs)
{
	cleanup_inode sqfs_inode_generic_t *out = calloc(1, sizeof(*out));

	if (!out)
		return SQFS_ERROR_ALLOC;
	if (S_ISFIFO(i->attr.mode)) {
		out->base.type = SQFS_INODE_FIFO;
		out->data.ipc.nlink = i->names;
	} else {
		out->base.type = S_ISBLK(i->attr.mode) ? SQFS_INODE_BDEV : SQFS_INODE_CDEV;
		out->data.dev.nlink = i->names;
		out->data.dev.devno = i->attr.rdev;
	}
	return write_inode(n, i, out, xattrs);
}

static int write_other(struct names *n, struct tree_inode *i)
{
	uint32_t xattrs;
	int r = put_xattrs(n, i, &xattrs);

	if (r < 0)
		return r;
	if (S_ISREG(i->attr.mode))
		return write_file(n, i, xattrs);
	if (S_ISLNK(i->attr.mode))
		return write_symlink(n, i, xattrs);
	return write_special(n, i, xattrs);
}

static int write_listing(struct names *n, struct tree_inode *dir, uint32_t *ret_subdirs)
{
	int r = sqfs_dir_writer_begin(n->dirs, 0);

	*ret_subdirs = 0;
	for (struct tree_node *c = dir->children; r == 0 && c; c = c->right) {
		if (is_dir(c->inode))
			++*ret_subdirs;
		r = sqfs_dir_writer_add_entry(n->dirs, c->name, c->inode->number, c->inode->ref,
			(uint16_t)c->inode->attr.mode);
	}
	return r < 0 ? r : sqfs_dir_writer_end(n->dirs);
}

static int write_dir_inode(
	struct names *n, struct tree_inode *dir, uint32_t parent_number, uint32_t subdirs)
{
	cleanup_inode sqfs_inode_generic_t *out = NULL;
	uint32_t xattrs;
	int r = put_xattrs(n, dir, &xattrs);

	if (r < 0)
		return r;
	out = sqfs_dir_writer_create_inode(n->dirs, 0, xattrs, parent_number);
	if (!out)
		return SQFS_ERROR_ALLOC;
	/* The library counts all entries; Unix counts ".", ".." and the folders. */
	if (out->base.type == SQFS_INODE_EXT_DIR)
		out->data.dir_ext.nlink = 2 + subdirs;
	else
		out->data.dir.nlink = 2 + subdirs;
	return write_inode(n, dir, out, xattrs);
}

static int write_dir(struct names *n, struct tree_inode *dir, uint32_t parent_number)
{
	struct tree_node *c;
	uint32_t subdirs = 0;
	int r = 0;

	for (c = dir->children; r == 0 && c; c = c->right)
		if (is_dir(c->inode))
			r = write_dir(n, c->inode, dir->number);
	for (c = dir->children; r == 0 && c; c = c->right)
		if (!is_dir(c->inode) && !c->inode->written)
			r = write_other(n, c->inode);
	if (r == 0)
		r = write_listing(n, dir, &subdirs);
	return r < 0 ? r : write_dir_inode(n, dir, parent_number, subdirs);
}

static int create_writers(struct names *n)
{
	sqfs_file_t *f = &n->s->file.base;

	n->inodes = sqfs_meta_writer_create(f, n->s->compressor, 0);
	n->listings = sqfs_meta_writer_create(f, n->s->compressor, SQFS_META_WRITER_KEEP_IN_MEMORY);
	if (!n->inodes || !n->listings)
		return SQFS_ERROR_ALLOC;
	n->dirs = sqfs_dir_writer_create(n->listings, SQFS_DIR_WRITER_CREATE_EXPORT_TABLE);
	n->ids = sqfs_id_table_create(0);
	n->xattrs = sqfs_xattr_writer_create(0);
	return n->dirs && n->ids && n->xattrs ? 0 : SQFS_ERROR_ALLOC;
}

static int write_tree(struct names *n, struct tree_inode *root)
{
	sqfs_super_t *super = &n->s->super;
	int r = create_writers(n);

	if (r < 0)
		return r;
	root->number = n->count = 1;
	give_numbers(n, root);
	super->inode_count = n->count;
	super->inode_table_start = n->s->file.size;
	r = write_dir(n, root, n->count + 1); /* as mksquashfs: the root's parent is nobody */
	if (r == 0)
		r = sqfs_meta_writer_flush(n->inodes);
	super->root_inode_ref = root->ref;
	super->directory_table_start = n->s->file.size;
	if (r == 0)
		r = sqfs_meta_writer_flush(n->listings);
	return r < 0 ? r : sqfs_meta_write_write_to_file(n->listings);
}

static int write_tables(struct names *n, const struct tree_inode *root)
{
	sqfs_file_t *f = &n->s->file.base;
	sqfs_compressor_t *c = n->s->compressor;
	sqfs_super_t *super = &n->s->super;
	int r = sqfs_frag_table_write(n->s->fragments, f, super, c);

	if (r == 0)
		r = sqfs_dir_writer_write_export_table(
			n->dirs, f, c, root->number, root->ref, super);
	if (r == 0)
		r = sqfs_id_table_write(n->ids, f, super, c);
	if (r == 0)
		r = sqfs_xattr_writer_flush(n->xattrs, f, super, c);
	return r;
}

int squash_write_names(struct squash *s, struct tree *t, struct err *e)
{
	__attribute__((cleanup(names_release))) struct names n = {.s = s};
	int r = write_tree(&n, t->root->inode);

	if (r == 0)
		r = write_tables(&n, t->root->inode);
	if (n.ids_full)
		return err_set(e, ERR_LIMIT, 0, "more than %d different user and group ids",
			UNPACK_IDS_MAX);
	return r < 0 ? squash_file_err(&s->file, r, "cannot store the image's names", e) : 0;
}
