/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One layer's tar, read with libarchive into the tree: the rules of unpack.h about entries. All
 * text in errors that comes from the layer is escaped and cut.
 */
#ifndef KOSA8_IMAGE_UNPACK_TAR_H
#define KOSA8_IMAGE_UNPACK_TAR_H

#include "layer-stream.h"
#include "tree.h"

/* Where the content of regular files goes, in order: begin, data and hole as they come, end. */
struct tar_sink {
	int (*begin)(void *ctx, struct tree_inode *inode, struct err *e);
	int (*data)(void *ctx, const void *data, size_t len, struct err *e);
	int (*hole)(void *ctx, uint64_t len, struct err *e);
	int (*end)(void *ctx, struct err *e);
	void *ctx;
};

/* What is counted over all layers. */
struct tar_totals {
	uint64_t tar_bytes;  /* uncompressed */
	uint64_t file_bytes; /* sizes of regular files, holes included */
};

struct tar_options {
	struct tar_sink sink;
	layer_progress *progress; /* may be NULL */
	void *progress_ctx;
};

/* Reads layer `fd` (borrowed) to its end and applies it as the next layer of t. ret_digest: SHA-256
 * of the uncompressed tar. On failure t holds part of the layer; *e names layer and entry. */
int tar_apply(int fd, struct tree *t, const struct tar_options *options, struct tar_totals *totals,
	char ret_digest[static SHA256_HEX_SIZE], struct err *e) must_check;

#endif
