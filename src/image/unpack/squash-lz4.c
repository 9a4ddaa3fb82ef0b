/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lz4 for libsquashfs. Its own compressor also returns "compressed" blocks that are larger than
 * their input, and readers refuse these (unsquashfs: a table of one id): here such a block is
 * stored as it is, as the format wants it. And it cannot be told how hard to try: half of a
 * conversion is lz4, and at ACCELERATION 4 it takes three quarters of the time for images that
 * are a tenth larger.
 */
#include "squash-internal.h"

#include <lz4.h>
#include <sqfs/error.h>
#include <stdlib.h>

#define ACCELERATION 4

struct lz4 {
	sqfs_compressor_t base; /* first: libsquashfs passes its address back */
	sqfs_compressor_t *inner;
};

static const struct lz4 *lz4_of(const void *base)
{
	return base;
}

static void destroy(sqfs_object_t *o)
{
	sqfs_destroy(lz4_of(o)->inner);
	free(o);
}

static void get_configuration(const sqfs_compressor_t *c, sqfs_compressor_config_t *config)
{
	const struct lz4 *l = lz4_of(c);

	l->inner->get_configuration(l->inner, config);
}

static int write_options(sqfs_compressor_t *c, sqfs_file_t *file)
{
	const struct lz4 *l = lz4_of(c);

	return l->inner->write_options(l->inner, file);
}

static int read_options(sqfs_compressor_t *c, sqfs_file_t *file)
{
	const struct lz4 *l = lz4_of(c);

	return l->inner->read_options(l->inner, file);
}

static sqfs_s32 do_block(
	sqfs_compressor_t *c, const sqfs_u8 *in, sqfs_u32 size, sqfs_u8 *out, sqfs_u32 out_size)
{
	sqfs_u32 max = out_size < size ? out_size : size - 1;

	(void)c;
	if (size == 0 || size > LZ4_MAX_INPUT_SIZE)
		return SQFS_ERROR_COMPRESSOR;
	return LZ4_compress_fast((const char *)in, (char *)out, (int)size, (int)max, ACCELERATION);
}

static sqfs_object_t *copy(const sqfs_object_t *o)
{
	sqfs_compressor_t *inner = sqfs_copy(lz4_of(o)->inner);
	struct lz4 *l = inner ? malloc(sizeof(*l)) : NULL;

	if (!l) {
		sqfs_destroy(inner);
		return NULL;
	}
	*l = *lz4_of(o);
	l->inner = inner;
	return &l->base.base;
}

int squash_lz4_create(uint32_t block_bytes, sqfs_compressor_t **ret)
{
	sqfs_compressor_config_t config;
	sqfs_compressor_t *inner;
	int r = sqfs_compressor_config_init(&config, SQFS_COMP_LZ4, block_bytes, 0);

	if (r == 0)
		r = sqfs_compressor_create(&config, &inner);
	if (r < 0)
		return r;
	struct lz4 *l = malloc(sizeof(*l));
	if (!l) {
		sqfs_destroy(inner);
		return SQFS_ERROR_ALLOC;
	}
	*l = (struct lz4){
		.base = {.base = {.destroy = destroy, .copy = copy},
			.get_configuration = get_configuration,
			.write_options = write_options,
			.read_options = read_options,
			.do_block = do_block},
		.inner = inner,
	};
	*ret = &l->base;
	return 0;
}

int squash_lz4_create_reader(uint32_t block_bytes, sqfs_compressor_t **ret)
{
	sqfs_compressor_config_t config;
	int r = sqfs_compressor_config_init(
		&config, SQFS_COMP_LZ4, block_bytes, SQFS_COMP_FLAG_UNCOMPRESS);

	return r < 0 ? r : sqfs_compressor_create(&config, ret);
}
