/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image's files while its layers are applied: names and attributes only, in memory. The rules
 * are in unpack.h. A name (tree_node) belongs to a folder and points to an inode, as others may.
 * Inodes live until tree_release(), also without a name: the squashfs writer points into them.
 * A folder's names are a treap ordered by byte value (random priorities: a hostile order of names
 * costs nothing extra); tree_seal() turns each into a sorted list.
 */
#ifndef KOSA8_IMAGE_UNPACK_TREE_H
#define KOSA8_IMAGE_UNPACK_TREE_H

#include "../../base/buf.h"
#include "unpack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sqfs_inode_generic_t;

struct tree_attr {
	uint32_t mode; /* type and permissions, as st_mode */
	uint32_t uid, gid;
	uint32_t mtime; /* seconds since 1970 */
	uint32_t rdev;	/* devices: tree_encode_dev() */
};

struct tree_inode {
	struct tree_attr attr;
	uint32_t names; /* how many point here */
	/* The squashfs writer's: number from 1, place in the inode table once written. */
	uint32_t number;
	uint64_t ref;
	bool written, is_small; /* is_small: a regular file has small, not data */
	struct tree_inode *next;
	/* For each: u16 and u32 length, name with its NUL, value (base/cursor.h). NULL: none. */
	unsigned char *xattrs;
	uint32_t xattrs_len;
	union {
		struct tree_node *children;	   /* folder: root of the treap, or sealed list */
		char *target;			   /* symbolic link */
		struct sqfs_inode_generic_t *data; /* regular file: the squashfs writer's */
		uint64_t small;			   /* squash-small.c */
	};
};

struct tree_node {
	struct tree_node *left;
	struct tree_node *right;  /* once sealed: the next in order, and left is NULL */
	struct tree_node *parent; /* NULL: the root folder */
	struct tree_inode *inode;
	uint32_t priority;
	uint16_t declared; /* the layer that last had an entry for this name; 0: the empty root */
	uint16_t seen;	   /* the last layer that had an entry for it or for anything below it */
	uint16_t cleared;  /* folder: the layer that hid what lower layers had in it */
	uint16_t depth;	   /* root: 0 */
	uint8_t len;
	char name[]; /* NUL-terminated */
};

struct tree {
	struct unpack_limits limits;
	struct tree_node *root;
	struct tree_inode *inodes;
	uint64_t entries;     /* against limits.entries */
	uint64_t xattr_bytes; /* of all inodes ever made */
	uint64_t dropped;     /* regular files whose last name went */
	uint16_t layer;	      /* the one being applied, from 1; the empty root is of 0 */
	uint64_t random;      /* priorities */
};

/* A checked name; points into the string it was parsed from. count 0 is the root. */
struct tree_part {
	const char *s;
	size_t len;
};
struct tree_path {
	struct tree_part parts[UNPACK_DEPTH_MAX];
	unsigned count;
};

int tree_init(struct tree *t, const struct unpack_limits *limits, struct err *e) must_check;
/* Accepts a zeroed tree. */
void tree_release(struct tree *t);
/* Call before the first entry of each layer. */
void tree_next_layer(struct tree *t);

/* ERR_INVALID for "..", ERR_LIMIT for too long or too deep. */
int tree_path_parse(const char *s, struct tree_path *ret, struct err *e) must_check;
/* Puts an inode of these attributes there, replacing what is there as unpack.h says. target is that
 * of a symbolic link, else NULL. *ret_inode is the new inode, or the folder that stays. */
int tree_put(struct tree *t, const struct tree_path *path, const struct tree_attr *attr,
	const char *target, struct tree_inode **ret_inode, struct err *e) must_check;
/* Gives path target's inode. */
int tree_link(struct tree *t, const struct tree_path *path, const struct tree_path *target,
	struct err *e) must_check;
/* Hides name in the folder of path's last component, or all in the folder (name NULL), as far as it
 * is of lower layers. path's last component is the whiteout's own name and does not matter. */
int tree_hide(
	struct tree *t, const struct tree_path *path, const char *name, struct err *e) must_check;
/* Replaces them; xattrs is copied. */
int tree_set_xattrs(struct tree *t, struct tree_inode *inode, const struct buf *xattrs,
	struct err *e) must_check;

/* Sorts all folders into lists (children, then right). Only reading is allowed afterwards. */
void tree_seal(struct tree *t);

/* Linux's 32-bit device number as squashfs stores it; -ERANGE when it does not fit. */
int tree_encode_dev(uint64_t major, uint64_t minor, uint32_t *ret);

/* tree-walk.c: the folder of path's last component, links followed; missing: made, or NULL. */
int tree_walk_parent(struct tree *t, const struct tree_path *path, bool make,
	struct tree_node **ret, struct err *e) must_check;
/* tree.c, for tree-walk.c */
struct tree_node *tree_find(const struct tree_node *dir, const char *name, size_t len);
int tree_make_dir(struct tree *t, struct tree_node *parent, const struct tree_part *name,
	struct tree_node **ret, struct err *e) must_check;

#endif
