/* SPDX-License-Identifier: Apache-2.0 */
#include "tree.h"

#include "../../base/hash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int out_of_memory(struct err *e)
{
	return err_set(e, ERR_LIMIT, ENOMEM, "out of memory for the image's file names");
}

static bool is_dir(const struct tree_inode *i)
{
	return S_ISDIR(i->attr.mode);
}

/* ---- the treap of one folder's names ---- */

static int name_compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
	int r = memcmp(a, b, a_len < b_len ? a_len : b_len);

	return r ? r : (a_len > b_len) - (a_len < b_len);
}

static int node_compare(const struct tree_node *a, const struct tree_node *b)
{
	return name_compare(a->name, a->len, b->name, b->len);
}

static void treap_insert(struct tree_node **root, struct tree_node *n)
{
	struct tree_node **at = root, *rest, **low = &n->left, **high = &n->right;

	while (*at && (*at)->priority >= n->priority)
		at = node_compare(n, *at) < 0 ? &(*at)->left : &(*at)->right;
	rest = *at;
	*at = n;
	while (rest) {
		if (node_compare(rest, n) < 0) {
			*low = rest;
			low = &rest->right;
			rest = rest->right;
		} else {
			*high = rest;
			high = &rest->left;
			rest = rest->left;
		}
	}
	*low = NULL;
	*high = NULL;
}

static void treap_remove(struct tree_node **root, struct tree_node *n)
{
	struct tree_node **at = root, *a = n->left, *b = n->right;

	while (*at != n)
		at = node_compare(n, *at) < 0 ? &(*at)->left : &(*at)->right;
	while (a && b) {
		if (a->priority >= b->priority) {
			*at = a;
			at = &a->right;
			a = a->right;
		} else {
			*at = b;
			at = &b->left;
			b = b->left;
		}
	}
	*at = a ? a : b;
}

/* Rotates every left child up: afterwards the nodes are a sorted list along right. */
static struct tree_node *treap_to_list(struct tree_node *n)
{
	struct tree_node *head = n, **tail = &head;

	while (n) {
		struct tree_node *l = n->left;
		if (l) {
			n->left = l->right;
			l->right = n;
			*tail = l;
			n = l;
		} else {
			tail = &n->right;
			n = n->right;
		}
	}
	return head;
}

struct tree_node *tree_find(const struct tree_node *dir, const char *name, size_t len)
{
	struct tree_node *n = dir->inode->children;

	while (n) {
		int r = name_compare(name, len, n->name, n->len);
		if (r == 0)
			return n;
		n = r < 0 ? n->left : n->right;
	}
	return NULL;
}

/* ---- nodes and inodes ---- */

static int count_entry(struct tree *t, struct err *e)
{
	if (t->entries >= t->limits.entries)
		return err_set(e, ERR_LIMIT, 0, "the image has more than %" PRIu64 " entries",
			t->limits.entries);
	t->entries++;
	return 0;
}

static struct tree_inode *inode_new(struct tree *t, const struct tree_attr *attr)
{
	struct tree_inode *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	i->attr = *attr;
	i->next = t->inodes;
	t->inodes = i;
	return i;
}

static uint32_t next_priority(struct tree *t)
{
	t->random ^= t->random << 13;
	t->random ^= t->random >> 7;
	t->random ^= t->random << 17;
	return (uint32_t)(t->random >> 32);
}

static struct tree_node *node_new(
	struct tree *t, struct tree_node *parent, const char *name, size_t len)
{
	struct tree_node *n = calloc(1, sizeof(*n) + len + 1);

	if (!n)
		return NULL;
	n->parent = parent;
	n->priority = next_priority(t);
	n->depth = parent ? (uint16_t)(parent->depth + 1) : 0;
	n->len = (uint8_t)len;
	memcpy(n->name, name, len);
	return n;
}

static void drop_children(struct tree *t, struct tree_inode *dir);

/* Takes one name from the inode; a folder's content goes with its only one. */
static void inode_unname(struct tree *t, struct tree_inode *i)
{
	i->names--;
	if (is_dir(i))
		drop_children(t, i);
	else if (i->names == 0 && S_ISREG(i->attr.mode))
		t->dropped++;
}

/* Recursion is bounded by UNPACK_DEPTH_MAX. */
static void drop_children(struct tree *t, struct tree_inode *dir)
{
	struct tree_node *n = treap_to_list(dir->children), *next;

	dir->children = NULL;
	for (; n; n = next) {
		next = n->right;
		inode_unname(t, n->inode);
		free(n);
	}
}

static void node_remove(struct tree *t, struct tree_node *n)
{
	treap_remove(&n->parent->inode->children, n);
	inode_unname(t, n->inode);
	free(n);
}

static void node_set_inode(struct tree_node *n, struct tree_inode *i)
{
	n->inode = i;
	i->names++;
}

/* This layer has something in dir: a whiteout of it must not take that away. */
static void mark_seen(struct tree *t, struct tree_node *n)
{
	for (; n && n->seen != t->layer; n = n->parent)
		n->seen = t->layer;
}

static const struct tree_attr made_dir = {.mode = S_IFDIR | 0755};

static void reset_made_dir(struct tree *t, struct tree_node *n)
{
	n->inode->attr = made_dir;
	free(n->inode->xattrs);
	n->inode->xattrs = NULL;
	n->inode->xattrs_len = 0;
	n->declared = t->layer;
}

/* ---- the tree ---- */

int tree_init(struct tree *t, const struct unpack_limits *limits, struct err *e)
{
	struct tree_inode *i;

	*t = (struct tree){.limits = *limits};
	random_bytes(&t->random, sizeof(t->random));
	t->random |= 1;
	t->root = node_new(t, NULL, "", 0);
	i = t->root ? inode_new(t, &made_dir) : NULL;
	if (!i) {
		free(t->root);
		t->root = NULL;
		return out_of_memory(e);
	}
	node_set_inode(t->root, i);
	return 0;
}

void tree_release(struct tree *t)
{
	struct tree_inode *i, *next;

	if (!t->root)
		return;
	drop_children(t, t->root->inode);
	free(t->root);
	for (i = t->inodes; i; i = next) {
		next = i->next;
		if (!is_dir(i) && !S_ISBLK(i->attr.mode) && !S_ISCHR(i->attr.mode) && !i->is_small)
			free(i->target); /* a regular file's data comes from malloc, too */
		free(i->xattrs);
		free(i);
	}
	*t = (struct tree){0};
}

void tree_next_layer(struct tree *t)
{
	t->layer++;
}

static int node_add(struct tree *t, struct tree_node *parent, const struct tree_part *name,
	struct tree_inode *i, struct err *e)
{
	struct tree_node *n = node_new(t, parent, name->s, name->len);

	if (!n)
		return out_of_memory(e);
	node_set_inode(n, i);
	treap_insert(&parent->inode->children, n);
	n->declared = t->layer;
	mark_seen(t, n);
	return 0;
}

int tree_make_dir(struct tree *t, struct tree_node *parent, const struct tree_part *name,
	struct tree_node **ret, struct err *e)
{
	int r = count_entry(t, e);

	if (r < 0)
		return r;
	if (parent->depth >= UNPACK_DEPTH_MAX)
		return err_set(e, ERR_LIMIT, 0, "more than %d folders deep", UNPACK_DEPTH_MAX);
	struct tree_inode *i = inode_new(t, &made_dir);
	if (!i)
		return out_of_memory(e);
	r = node_add(t, parent, name, i, e);
	if (r < 0)
		return r;
	*ret = tree_find(parent, name->s, name->len);
	return 0;
}

/* Lets name in parent be i, whatever was there. */
static int set_name(struct tree *t, struct tree_node *parent, const struct tree_part *name,
	struct tree_inode *i, struct err *e)
{
	struct tree_node *n = tree_find(parent, name->s, name->len);

	if (!n) {
		if (parent->depth >= UNPACK_DEPTH_MAX)
			return err_set(
				e, ERR_LIMIT, 0, "more than %d folders deep", UNPACK_DEPTH_MAX);
		return node_add(t, parent, name, i, e);
	}
	/* Name the new one first: the old one may be a folder that held its only other name. */
	struct tree_inode *old = n->inode;
	node_set_inode(n, i);
	inode_unname(t, old);
	n->declared = t->layer;
	mark_seen(t, n);
	return 0;
}

static int put_root(struct tree *t, const struct tree_attr *attr, struct err *e)
{
	if (!S_ISDIR(attr->mode))
		return err_set(e, ERR_INVALID, 0, "the root can only be a folder");
	t->root->inode->attr = *attr;
	t->root->declared = t->layer;
	t->root->seen = t->layer;
	return 0;
}

static int check_target(const char *target, struct err *e)
{
	size_t len = strlen(target);

	if (len == 0)
		return err_set(e, ERR_INVALID, 0, "a symbolic link without a target");
	if (len > UNPACK_TARGET_MAX)
		return err_set(e, ERR_LIMIT, 0, "a symbolic link's target of more than %d bytes",
			UNPACK_TARGET_MAX);
	return 0;
}

int tree_put(struct tree *t, const struct tree_path *path, const struct tree_attr *attr,
	const char *target, struct tree_inode **ret_inode, struct err *e)
{
	struct tree_node *parent, *n;
	int r = count_entry(t, e);

	if (r < 0)
		return r;
	if (path->count == 0) {
		r = put_root(t, attr, e);
		if (r < 0)
			return r;
		*ret_inode = t->root->inode;
		return 0;
	}
	r = target ? check_target(target, e) : 0;
	if (r < 0)
		return r;
	r = tree_walk_parent(t, path, true, &parent, e);
	if (r < 0)
		return r;
	const struct tree_part *name = &path->parts[path->count - 1];
	n = tree_find(parent, name->s, name->len);
	if (n && is_dir(n->inode) && S_ISDIR(attr->mode)) {
		n->inode->attr = *attr;
		n->declared = t->layer;
		mark_seen(t, n);
		*ret_inode = n->inode;
		return 0;
	}
	struct tree_inode *i = inode_new(t, attr);
	if (i && target)
		i->target = strdup(target);
	if (!i || (target && !i->target))
		return out_of_memory(e);
	r = set_name(t, parent, name, i, e);
	if (r < 0)
		return r;
	*ret_inode = i;
	return 0;
}

int tree_link(
	struct tree *t, const struct tree_path *path, const struct tree_path *target, struct err *e)
{
	struct tree_node *from_dir, *from, *parent;
	int r = count_entry(t, e);

	if (r < 0)
		return r;
	if (path->count == 0 || target->count == 0)
		return err_set(e, ERR_INVALID, 0, "a hard link of the root");
	r = tree_walk_parent(t, target, false, &from_dir, e);
	if (r < 0)
		return err_wrap(e, "the hard link's target");
	const struct tree_part *name = &target->parts[target->count - 1];
	from = from_dir ? tree_find(from_dir, name->s, name->len) : NULL;
	if (!from)
		return err_set(e, ERR_INVALID, 0, "the hard link's target is not there");
	if (is_dir(from->inode))
		return err_set(e, ERR_INVALID, 0, "the hard link's target is a folder");
	struct tree_inode *i = from->inode;
	if (i->names >= UNPACK_LINKS_MAX)
		return err_set(e, ERR_LIMIT, 0, "a file of more than %d names", UNPACK_LINKS_MAX);
	r = tree_walk_parent(t, path, true, &parent, e);
	if (r < 0)
		return r;
	return set_name(t, parent, &path->parts[path->count - 1], i, e);
}

/* ---- whiteouts ---- */

/* Removes what only lower layers put into dir. Recursion is bounded by UNPACK_DEPTH_MAX. */
static void hide_children(struct tree *t, struct tree_node *dir)
{
	struct tree_node *n, *next;

	if (dir->cleared == t->layer)
		return;
	dir->cleared = t->layer;
	n = treap_to_list(dir->inode->children);
	dir->inode->children = NULL;
	for (; n; n = next) {
		next = n->right;
		if (n->seen != t->layer) {
			inode_unname(t, n->inode);
			free(n);
			continue;
		}
		treap_insert(&dir->inode->children, n);
		if (!is_dir(n->inode))
			continue;
		hide_children(t, n);
		if (n->declared != t->layer)
			reset_made_dir(t, n);
	}
}

int tree_hide(struct tree *t, const struct tree_path *path, const char *name, struct err *e)
{
	struct tree_node *dir, *n;
	int r = count_entry(t, e);

	if (r < 0)
		return r;
	r = tree_walk_parent(t, path, false, &dir, e);
	if (r < 0)
		return r;
	if (dir && !name)
		hide_children(t, dir);
	n = dir && name ? tree_find(dir, name, strlen(name)) : NULL;
	if (!n)
		return 0;
	if (n->seen != t->layer) {
		node_remove(t, n);
	} else if (is_dir(n->inode)) {
		hide_children(t, n);
		if (n->declared != t->layer)
			reset_made_dir(t, n);
	}
	return 0;
}

/* ---- the rest ---- */

int tree_set_xattrs(
	struct tree *t, struct tree_inode *inode, const struct buf *xattrs, struct err *e)
{
	unsigned char *copy = NULL;

	if (xattrs->len > UNPACK_XATTRS_BYTES_MAX - t->xattr_bytes)
		return err_set(e, ERR_LIMIT, 0,
			"the image has more than %u bytes of extended attributes",
			UNPACK_XATTRS_BYTES_MAX);
	if (xattrs->len > 0) {
		copy = malloc(xattrs->len);
		if (!copy)
			return out_of_memory(e);
		memcpy(copy, xattrs->data, xattrs->len);
	}
	free(inode->xattrs);
	inode->xattrs = copy;
	inode->xattrs_len = (uint32_t)xattrs->len;
	t->xattr_bytes += xattrs->len;
	return 0;
}

static void seal_dir(struct tree_inode *dir)
{
	dir->children = treap_to_list(dir->children);
	for (struct tree_node *n = dir->children; n; n = n->right)
		if (is_dir(n->inode))
			seal_dir(n->inode);
}

void tree_seal(struct tree *t)
{
	seal_dir(t->root->inode);
}

int tree_encode_dev(uint64_t major, uint64_t minor, uint32_t *ret)
{
	if (major > 0xfff || minor > 0xfffff)
		return -ERANGE;
	*ret = (uint32_t)((minor & 0xff) | (major << 8) | ((minor & ~0xffull) << 12));
	return 0;
}
