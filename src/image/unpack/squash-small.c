/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Most files are smaller than a block: all that is to be known of their content is a place in a
 * fragment block. libsquashfs keeps an inode of 72 bytes for each, which it fills when the content
 * was compressed. Here they are collected, and once all of a lot are filled their place is kept in
 * the tree's own inode. Lots end at the same files whatever the machine: so do the image's bytes.
 */
#include "squash-internal.h"

#include <sqfs/error.h>
#include <sqfs/inode.h>
#include <stdlib.h>

#define OFFSET_BITS 17 /* blocks are of 2^17 bytes: an offset is below, a size too */
#define SIZE_BITS 17
#define INDEX_NONE ((1u << 30) - 1)

/* Keeps libsquashfs's inode where that says more. */
static void shrink(struct tree_inode *i)
{
	uint32_t index, offset;
	uint64_t size, small;

	(void)sqfs_inode_get_frag_location(i->data, &index, &offset);
	(void)sqfs_inode_get_file_size(i->data, &size);
	if (sqfs_inode_get_file_block_count(i->data) > 0 || size >= 1u << SIZE_BITS)
		return;
	if (index == UINT32_MAX && size == 0) {
		index = INDEX_NONE;
		offset = 0;
	} else if (index >= INDEX_NONE || offset >= 1u << OFFSET_BITS) {
		return;
	}
	small = (uint64_t)index << (OFFSET_BITS + SIZE_BITS) | (uint64_t)offset << SIZE_BITS | size;
	sqfs_free(i->data);
	i->small = small;
	i->is_small = true;
}

int squash_small_add(struct squash *s, struct tree_inode *i)
{
	int r;

	s->lot[s->lot_len++] = i;
	if (s->lot_len < SQUASH_LOT)
		return 0;
	r = sqfs_block_processor_sync(s->processor);
	if (r < 0)
		return r;
	while (s->lot_len > 0)
		shrink(s->lot[--s->lot_len]);
	return 0;
}

uint32_t squash_small_fragment(const struct tree_inode *i)
{
	uint32_t index = (uint32_t)(i->small >> (OFFSET_BITS + SIZE_BITS));

	return index == INDEX_NONE ? UINT32_MAX : index;
}

int squash_small_inode(const struct tree_inode *i, sqfs_inode_generic_t **ret)
{
	sqfs_inode_generic_t *out = calloc(1, sizeof(*out));
	uint32_t index = squash_small_fragment(i);
	uint32_t offset = (uint32_t)(i->small >> SIZE_BITS) & ((1u << OFFSET_BITS) - 1);

	if (!out)
		return SQFS_ERROR_ALLOC;
	out->base.type = SQFS_INODE_FILE;
	(void)sqfs_inode_set_file_size(out, i->small & ((1u << SIZE_BITS) - 1));
	(void)sqfs_inode_set_frag_location(out, index, index == UINT32_MAX ? UINT32_MAX : offset);
	*ret = out;
	return 0;
}
