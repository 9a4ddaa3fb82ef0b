/* SPDX-License-Identifier: Apache-2.0 */
/* Layers, one after the other, to a squashfs, which is then read back: it has the tree's names, and
 * in each file what the layer had in it. */
#include "layers.h"

#include "image/unpack/squash-internal.h"
#include "image/unpack/squash.h"

#include <sqfs/data_reader.h>
#include <sqfs/dir.h>
#include <sqfs/dir_reader.h>
#include <sqfs/inode.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX 5000
#define FNV_START 0xcbf29ce484222325u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- what went in ---- */

struct content {
	const struct tree_inode *inode;
	uint64_t hash, size;
};

struct recorder {
	struct tar_sink to;
	struct content files[FILES_MAX];
	size_t len;
	bool in_file;
};

static struct recorder recorder;

static void add_bytes(struct content *c, const unsigned char *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		c->hash = (c->hash ^ (data ? data[i] : 0)) * 0x100000001b3u;
	c->size += len;
}

static int record_begin(void *ctx, struct tree_inode *inode, struct err *e)
{
	struct recorder *r = ctx;

	assert(r->len < FILES_MAX);
	r->in_file = true;
	r->files[r->len++] = (struct content){inode, FNV_START, 0};
	return r->to.begin(r->to.ctx, inode, e);
}

static int record_data(void *ctx, const void *data, size_t len, struct err *e)
{
	struct recorder *r = ctx;

	add_bytes(&r->files[r->len - 1], data, len);
	return r->to.data(r->to.ctx, data, len, e);
}

static int record_hole(void *ctx, uint64_t len, struct err *e)
{
	struct recorder *r = ctx;

	add_bytes(&r->files[r->len - 1], NULL, len);
	return r->to.hole(r->to.ctx, len, e);
}

static int record_end(void *ctx, struct err *e)
{
	struct recorder *r = ctx;

	r->in_file = false;
	return r->to.end(r->to.ctx, e);
}

/* Inodes live as long as the tree: each is there once. */
static const struct content *find_content(const struct tree_inode *inode)
{
	for (size_t i = 0; i < recorder.len; i++)
		if (recorder.files[i].inode == inode)
			return &recorder.files[i];
	return NULL;
}

/* ---- what comes out ---- */

struct image {
	struct squash_file file;
	sqfs_super_t super;
	sqfs_compressor_t *decompressor;
	sqfs_dir_reader_t *names;
	sqfs_data_reader_t *contents;
};

static void image_open(struct image *i, int fd, uint64_t size)
{
	squash_file_init(&i->file, fd);
	i->file.size = size;
	int r = sqfs_super_read(&i->super, &i->file.base);
	assert(r == 0);
	r = squash_lz4_create_reader(i->super.block_size, &i->decompressor);
	assert(r == 0);
	i->names = sqfs_dir_reader_create(&i->super, i->decompressor, &i->file.base, 0);
	i->contents =
		sqfs_data_reader_create(&i->file.base, i->super.block_size, i->decompressor, 0);
	if (!i->names || !i->contents)
		abort();
	if (i->super.fragment_entry_count > 0) {
		r = sqfs_data_reader_load_fragment_table(i->contents, &i->super);
		assert(r == 0);
	}
}

static void image_close(struct image *i)
{
	sqfs_destroy(i->contents);
	sqfs_destroy(i->names);
	sqfs_destroy(i->decompressor);
}

static void check_file(
	struct image *image, const sqfs_inode_generic_t *found, const struct tree_inode *inode)
{
	static unsigned char chunk[128 * 1024];
	const struct content *want = find_content(inode);
	struct content got = {.hash = FNV_START};
	uint64_t size;

	(void)sqfs_inode_get_file_size(found, &size);
	while (got.size < size) {
		int32_t n = sqfs_data_reader_read(
			image->contents, found, got.size, chunk, sizeof(chunk));
		assert(n > 0);
		add_bytes(&got, chunk, (size_t)n);
	}
	assert(got.size == size);
	assert(want ? want->size == size && want->hash == got.hash : size == 0);
}

static void check_dir(struct image *, sqfs_inode_generic_t *, const struct tree_node *);

static void check_node(
	struct image *image, sqfs_inode_generic_t *found, const struct tree_node *node)
{
	assert((found->base.mode & S_IFMT) == (node->inode->attr.mode & S_IFMT));
	if (S_ISDIR(node->inode->attr.mode))
		check_dir(image, found, node);
	else if (S_ISREG(node->inode->attr.mode))
		check_file(image, found, node->inode);
	else if (S_ISLNK(node->inode->attr.mode))
		assert(strcmp((const char *)found->extra, node->inode->target) == 0);
}

/* The reader is at one folder at a time: first all of it, then what is in it. */
static void check_dir(struct image *image, sqfs_inode_generic_t *dir, const struct tree_node *node)
{
	size_t count = 0, i = 0;
	sqfs_dir_entry_t *entry;

	for (const struct tree_node *n = node->inode->children; n; n = n->right)
		count++;
	sqfs_inode_generic_t **found = calloc(count + 1, sizeof(struct sqfs_inode_generic_t *));
	if (!found)
		abort();
	int r = sqfs_dir_reader_open_dir(image->names, dir, 0);
	assert(r == 0);
	for (const struct tree_node *n = node->inode->children; n; n = n->right, i++) {
		r = sqfs_dir_reader_read(image->names, &entry);
		assert(r == 0);
		assert(entry->size + 1 == n->len && memcmp(entry->name, n->name, n->len) == 0);
		sqfs_free(entry);
		r = sqfs_dir_reader_get_inode(image->names, &found[i]);
		assert(r == 0);
	}
	r = sqfs_dir_reader_read(image->names, &entry);
	assert(r == 1);
	i = 0;
	for (const struct tree_node *n = node->inode->children; n; n = n->right, i++) {
		check_node(image, found[i], n);
		sqfs_free(found[i]);
	}
	free(found);
}

static void check_image(int fd, uint64_t size, const struct tree *t)
{
	struct image image = {0};
	sqfs_inode_generic_t *root;

	image_open(&image, fd, size);
	int r = sqfs_dir_reader_get_root_inode(image.names, &root);
	assert(r == 0);
	check_node(&image, root, t->root);
	sqfs_free(root);
	image_close(&image);
}

/* libsquashfs forgets what it is at when it is destroyed: a worker ends then, this goes on. */
static void drain(struct squash *s)
{
	struct err ignored;

	if (recorder.in_file)
		(void)record_end(&recorder, &ignored);
	(void)sqfs_block_processor_finish(s->processor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct unpack_limits limits = LAYERS_LIMITS;
	const struct tar_sink sink = {
		record_begin, record_data, record_hole, record_end, &recorder};
	cleanup_fd int fd = memfd_create("image", MFD_CLOEXEC);
	uint64_t inodes, image_size;
	struct squash *squash;
	struct stat st;
	struct tree t;
	struct err e;

	if (fd < 0 || tree_init(&t, &limits, &e) < 0 || squash_new(fd, &squash, &e) < 0)
		abort();
	recorder.to = squash_sink(squash);
	recorder.len = 0;
	recorder.in_file = false;
	if (apply_layers(&t, &sink, data, size)) {
		int r = squash_finish(squash, &t, &inodes, &image_size, &e);
		assert(r == 0 || e.kind == ERR_LIMIT);
		if (r == 0) {
			assert(fstat(fd, &st) == 0 && (uint64_t)st.st_size == image_size);
			assert(image_size % 4096 == 0);
			check_image(fd, image_size, &t);
		}
	} else {
		drain(squash);
	}
	squash_free(squash);
	tree_release(&t);
	return 0;
}
