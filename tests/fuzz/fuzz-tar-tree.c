/* SPDX-License-Identifier: Apache-2.0 */
/* Layers, one after the other, to a tree that must be whole. */
#include "layers.h"

#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int ignore_begin(void *ctx, struct tree_inode *inode, struct err *e)
{
	(void)ctx, (void)e;
	assert(S_ISREG(inode->attr.mode) && !inode->data);
	return 0;
}

static int ignore_data(void *ctx, const void *data, size_t len, struct err *e)
{
	(void)ctx, (void)data, (void)len, (void)e;
	return 0;
}

static int ignore_hole(void *ctx, uint64_t len, struct err *e)
{
	(void)ctx, (void)len, (void)e;
	return 0;
}

static int ignore_end(void *ctx, struct err *e)
{
	(void)ctx, (void)e;
	return 0;
}

/* Names are sorted, none is special, and each inode has as many as it says. */
static void check_dir(const struct tree_node *dir)
{
	for (const struct tree_node *n = dir->inode->children; n; n = n->right) {
		assert(n->parent == dir && n->depth == dir->depth + 1);
		assert(n->depth <= UNPACK_DEPTH_MAX && n->len > 0 && n->len == strlen(n->name));
		assert(!strchr(n->name, '/') && strcmp(n->name, ".") != 0);
		assert(strcmp(n->name, "..") != 0 && strncmp(n->name, ".wh.", 4) != 0);
		assert(!n->right || strcmp(n->name, n->right->name) < 0);
		assert(n->inode->names > 0);
		n->inode->names--;
		if (S_ISDIR(n->inode->attr.mode))
			check_dir(n);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct unpack_limits limits = LAYERS_LIMITS;
	const struct tar_sink sink = {
		.begin = ignore_begin, .data = ignore_data, .hole = ignore_hole, .end = ignore_end};
	struct tree t;
	struct err e;

	if (tree_init(&t, &limits, &e) < 0)
		abort();
	(void)apply_layers(&t, &sink, data, size);
	tree_seal(&t);
	t.root->inode->names--;
	check_dir(t.root);
	for (const struct tree_inode *i = t.inodes; i; i = i->next)
		assert(i->names == 0);
	tree_release(&t);
	return 0;
}
