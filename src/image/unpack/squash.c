/* SPDX-License-Identifier: Apache-2.0 */
#include "squash.h"
#include "squash-internal.h"

#include <errno.h>
#include <sqfs/error.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (128u * 1024)
#define DEVICE_BLOCK_BYTES 4096
/* Compression runs in one thread beside the reading one: more gain nothing, as reading is the
 * slower side. */
#define WORKERS 1
#define BACKLOG_BLOCKS 16

static int create_objects(struct squash *s)
{
	sqfs_block_processor_desc_t desc;
	int r;

	r = squash_lz4_create(BLOCK_BYTES, &s->compressor);
	if (r == 0)
		r = squash_lz4_create_reader(BLOCK_BYTES, &s->decompressor);
	if (r == 0)
		r = sqfs_super_init(&s->super, BLOCK_BYTES, 0, SQFS_COMP_LZ4);
	if (r == 0)
		r = sqfs_super_write(&s->super, &s->file.base);
	if (r == 0)
		r = s->compressor->write_options(s->compressor, &s->file.base);
	if (r < 0)
		return r;
	if (r > 0)
		s->super.flags |= SQFS_FLAG_COMPRESSOR_OPTIONS;
	s->data_start = s->file.size;
	s->blocks = sqfs_block_writer_create(&s->file.base, DEVICE_BLOCK_BYTES, 0);
	s->fragments = sqfs_frag_table_create(0);
	if (!s->blocks || !s->fragments)
		return SQFS_ERROR_ALLOC;
	memset(&desc, 0, sizeof(desc));
	desc.size = sizeof(desc);
	desc.max_block_size = BLOCK_BYTES;
	desc.num_workers = WORKERS;
	desc.max_backlog = BACKLOG_BLOCKS;
	desc.cmp = s->compressor;
	desc.wr = s->blocks;
	desc.tbl = s->fragments;
	desc.file = &s->file.base;
	desc.uncmp = s->decompressor;
	return sqfs_block_processor_create_ex(&desc, &s->processor);
}

int squash_new(int fd, struct squash **ret, struct err *e)
{
	cleanup_squash struct squash *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return err_set(e, ERR_LIMIT, ENOMEM, "out of memory");
	squash_file_init(&s->file, fd);
	r = create_objects(s);
	if (r < 0)
		return squash_file_err(&s->file, r, "cannot start the image", e);
	*ret = s;
	s = NULL;
	return 0;
}

void squash_free(struct squash *s)
{
	if (!s)
		return;
	sqfs_destroy(s->processor);
	sqfs_destroy(s->blocks);
	sqfs_destroy(s->fragments);
	sqfs_destroy(s->compressor);
	sqfs_destroy(s->decompressor);
	free(s);
}

void squash_freep(struct squash **s)
{
	squash_free(*s);
}

/* ---- file content ---- */

static int data_err(struct squash *s, int r, struct err *e)
{
	return r < 0 ? squash_file_err(&s->file, r, "cannot store the file", e) : 0;
}

static int begin_file(void *ctx, struct tree_inode *inode, struct err *e)
{
	struct squash *s = ctx;

	s->current = inode;
	return data_err(s, sqfs_block_processor_begin_file(s->processor, &inode->data, NULL, 0), e);
}

static int put_data(void *ctx, const void *data, size_t len, struct err *e)
{
	struct squash *s = ctx;

	return data_err(s, sqfs_block_processor_append(s->processor, data, len), e);
}

static int put_hole(void *ctx, uint64_t len, struct err *e)
{
	static const unsigned char zeros[BLOCK_BYTES];
	struct squash *s = ctx;
	int r = 0;

	while (r == 0 && len > 0) {
		size_t n = len < sizeof(zeros) ? (size_t)len : sizeof(zeros);
		r = sqfs_block_processor_append(s->processor, zeros, n);
		len -= n;
	}
	return data_err(s, r, e);
}

static int end_file(void *ctx, struct err *e)
{
	struct squash *s = ctx;
	int r = sqfs_block_processor_end_file(s->processor);

	if (r == 0)
		r = squash_small_add(s, s->current);
	return data_err(s, r, e);
}

struct tar_sink squash_sink(struct squash *s)
{
	return (struct tar_sink){
		.begin = begin_file, .data = put_data, .hole = put_hole, .end = end_file, .ctx = s};
}

/* ---- the end ---- */

static int write_end(struct squash *s)
{
	static const unsigned char zeros[DEVICE_BLOCK_BYTES];
	uint64_t size = s->file.size, rest = size % DEVICE_BLOCK_BYTES;
	int r = 0;

	s->super.bytes_used = size;
	if (rest > 0)
		r = s->file.base.write_at(
			&s->file.base, size, zeros, DEVICE_BLOCK_BYTES - (size_t)rest);
	return r < 0 ? r : sqfs_super_write(&s->super, &s->file.base);
}

int squash_finish(
	struct squash *s, struct tree *t, uint64_t *ret_inodes, uint64_t *ret_size, struct err *e)
{
	int r = sqfs_block_processor_finish(s->processor);

	if (r < 0)
		return data_err(s, r, e);
	s->data_end = s->file.size;
	tree_seal(t);
	r = squash_write_names(s, t, e);
	if (r == 0)
		r = squash_drop_unused(s, t, e);
	if (r < 0)
		return r;
	r = write_end(s);
	if (r < 0)
		return squash_file_err(&s->file, r, "cannot finish the image", e);
	*ret_inodes = s->super.inode_count;
	*ret_size = s->file.size;
	return 0;
}
