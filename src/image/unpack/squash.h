/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree to a squashfs 4.0 image with libsquashfs: lz4, 128 KiB blocks, file ends packed into
 * fragments, equal files and fragments stored once (compared byte by byte), export table, no times
 * of its own. File content goes in while layers are read (squash_sink()), names at the end.
 */
#ifndef KOSA8_IMAGE_UNPACK_SQUASH_H
#define KOSA8_IMAGE_UNPACK_SQUASH_H

#include "tar.h"

struct squash;

/* fd: an empty regular file, borrowed, open for reading and writing. Starts the compressing
 * thread. */
int squash_new(int fd, struct squash **ret, struct err *e) must_check;
void squash_free(struct squash *s); /* before the tree whose inodes it filled */
void squash_freep(struct squash **s);
#define cleanup_squash __attribute__((cleanup(squash_freep)))

/* Valid as long as s. */
struct tar_sink squash_sink(struct squash *s);
/* Writes the rest. The tree is sealed afterwards. ret_size: of the image, padded to 4096 bytes. */
int squash_finish(struct squash *s, struct tree *t, uint64_t *ret_inodes, uint64_t *ret_size,
	struct err *e) must_check;

#endif
