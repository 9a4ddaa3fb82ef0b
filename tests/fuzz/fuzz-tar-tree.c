/* SPDX-License-Identifier: Apache-2.0 */
/* Layers, one after the other (each after its 32-bit length), to a tree that must be whole. */
#include "base/cursor.h"
#include "base/fd.h"
#include "image/unpack/tar.h"

#include <assert.h>
#include <stdio.h>
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

/* Makes the checksum of each block that looks like a header right: else hardly an input would get
 * past it. */
static void repair(unsigned char *layer, size_t len)
{
	for (unsigned char *h = layer; len >= 512; h += 512, len -= 512) {
		unsigned sum = 0;
		if (memcmp(h + 257, "ustar", 5) != 0)
			continue;
		memset(h + 148, ' ', 8);
		for (int i = 0; i < 512; i++)
			sum += h[i];
		(void)snprintf((char *)h + 148, 8, "%06o", sum);
	}
}

static int apply(struct tree *t, unsigned char *layer, size_t len, struct tar_totals *totals)
{
	const struct tar_options o = {.sink = {.begin = ignore_begin,
					      .data = ignore_data,
					      .hole = ignore_hole,
					      .end = ignore_end}};
	cleanup_fd int fd = memfd_create("layer", MFD_CLOEXEC);
	char digest[SHA256_HEX_SIZE];
	struct err e = {0};

	repair(layer, len);
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
		const unsigned char *from = cursor_bytes(&c, len);
		if (!from)
			break;
		unsigned char *layer = malloc(len + 1);
		if (!layer)
			abort();
		memcpy(layer, from, len);
		int r = apply(&t, layer, len, &totals);
		free(layer);
		if (r < 0)
			break;
	}
	tree_seal(&t);
	t.root->inode->names--;
	check_dir(t.root);
	for (const struct tree_inode *i = t.inodes; i; i = i->next)
		assert(i->names == 0);
	tree_release(&t);
	return 0;
}
