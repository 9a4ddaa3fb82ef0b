/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by squash*.c only. */
#ifndef KOSA8_IMAGE_UNPACK_SQUASH_INTERNAL_H
#define KOSA8_IMAGE_UNPACK_SQUASH_INTERNAL_H

#include "squash-file.h"
#include "tree.h"

#include <sqfs/block_processor.h>
#include <sqfs/block_writer.h>
#include <sqfs/compressor.h>
#include <sqfs/frag_table.h>
#include <sqfs/super.h>

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION /* clang's, of a fuzzer */
#define SQUASH_LOT 4				/* so that short inputs fill some */
#else
#define SQUASH_LOT 1024
#endif

struct squash {
	struct squash_file file;
	sqfs_super_t super;
	sqfs_compressor_t *compressor;
	sqfs_compressor_t *decompressor; /* to compare equal fragments */
	sqfs_block_writer_t *blocks;
	sqfs_frag_table_t *fragments;
	sqfs_block_processor_t *processor;
	struct tree_inode *current;	    /* between begin and end of a file */
	struct tree_inode *lot[SQUASH_LOT]; /* squash-small.c */
	size_t lot_len;
	uint64_t data_start; /* blocks are from here ... */
	uint64_t data_end;   /* ... to here; then the tables */
};

/* squash-lz4.c. Return a SQFS_ERROR value. */
int squash_lz4_create(uint32_t block_bytes, sqfs_compressor_t **ret) must_check;
int squash_lz4_create_reader(uint32_t block_bytes, sqfs_compressor_t **ret) must_check;
/* squash-names.c: inode, directory, export, id and attribute tables of a sealed tree, and the
 * fragment table between them, as the format's order wants it. */
int squash_write_names(struct squash *s, struct tree *t, struct err *e) must_check;
/* squash-small.c. The file is complete: it is looked at once its content was stored, which moves
 * what its data points to. Then small files have is_small. */
int squash_small_add(struct squash *s, struct tree_inode *i) must_check;
/* Of a small file: its fragment block, UINT32_MAX when it is empty; an inode to write, on the heap.
 */
uint32_t squash_small_fragment(const struct tree_inode *i);
int squash_small_inode(const struct tree_inode *i, sqfs_inode_generic_t **ret) must_check;
/* squash-holes.c: gives back the blocks that no file of the tree uses; reads as zeros. */
int squash_drop_unused(struct squash *s, const struct tree *t, struct err *e) must_check;

#endif
