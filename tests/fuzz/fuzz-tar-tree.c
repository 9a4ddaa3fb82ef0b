/* SPDX-License-Identifier: Apache-2.0 */
/* Layers, one after the other (each after its 32-bit length), to a tree that must be whole. */
#include "base/cursor.h"
#include "base/fd.h"
#include "image/tar.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define LAYERS_MAX 4

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

static int apply(struct tree *t, const void *layer, size_t len, struct tar_totals *totals)
{
	const struct tar_options o = {.sink = {.begin = ignore_begin,
					      .data = ignore_data,
					      .hole = ignore_hole,
					      .end = ignore_end}};
	cleanup_fd int fd = memfd_create("layer", MFD_CLOEXEC);
	char digest[SHA256_HEX_SIZE];
	struct err e = {0};

	if (fd < 0 || fd_write_all(fd, layer, len) < 0)
		abort();
	int r = tar_apply(fd, t, &o, totals, digest, &e);
	assert(r == 0 || (r < 0 && e.kind != ERR_NONE && e.kind != ERR_INTERNAL));
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct unpack_limits limits = {.entries = 5000,
		.total_bytes = 16u << 20,
		.ratio = 200,
		.ratio_after_bytes = 1u << 20};
	struct tar_totals totals = {0};
	struct cursor c;
	struct tree t;
	struct err e;

	if (tree_init(&t, &limits, &e) < 0)
		abort();
	cursor_init(&c, data, size);
	for (int i = 0; i < LAYERS_MAX && c.left > 0; i++) {
		size_t len = cursor_u32(&c);
		if (len > c.left)
			len = c.left;
		const unsigned char *layer = cursor_bytes(&c, len);
		if (!layer || apply(&t, layer, len, &totals) < 0)
			break;
	}
	tree_seal(&t);
	t.root->inode->names--;
	check_dir(t.root);
	for (const struct tree_inode *i = t.inodes; i; i = i->next)
		assert(i->names == 0);
	t.root->inode->names++;
	/* check_dir() took the names; release counts them down once more. */
	for (struct tree_inode *i = t.inodes; i; i = i->next)
		i->names = UINT32_MAX;
	tree_release(&t);
	return 0;
}
