/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The uncompressed bytes of one layer's file, with their digest: plain, gzip (RFC 1952, members one
 * after the other) or zstd (RFC 8878), found by magic; any of them may be of no bytes. ISA-L and
 * libzstd are used directly, because libarchive's gzip filter neither checks the CRC nor notices
 * what follows the last member. ISA-L's igzip takes half of zlib's time or less.
 */
#ifndef KOSA8_IMAGE_UNPACK_LAYER_STREAM_H
#define KOSA8_IMAGE_UNPACK_LAYER_STREAM_H

#include "../../base/err.h"
#include "../../base/hash.h"
#include "unpack.h"

#include <stddef.h>

struct layer_stream;

/* Called now and then with the bytes of the file that were read so far. */
typedef void layer_progress(void *ctx, uint64_t bytes);

/* fd is borrowed. *total_bytes counts uncompressed bytes over all layers against the limit. */
int layer_stream_open(int fd, const struct unpack_limits *limits, uint64_t *total_bytes,
	layer_progress *progress, void *ctx, struct layer_stream **ret, struct err *e) must_check;
void layer_stream_free(struct layer_stream *s);
void layer_stream_freep(struct layer_stream **s);
#define cleanup_layer_stream __attribute__((cleanup(layer_stream_freep)))

/* The next bytes, valid until the next call; *ret_len is 0 at the end, which is reached only when
 * the whole file was read and all checks held. ERR_CORRUPT, ERR_LIMIT, ERR_UNSUPPORTED. */
int layer_stream_next(
	struct layer_stream *s, const void **ret, size_t *ret_len, struct err *e) must_check;
/* After the end: SHA-256 of all bytes, hex. Once. */
void layer_stream_digest(struct layer_stream *s, char ret[static SHA256_HEX_SIZE]);

#endif
