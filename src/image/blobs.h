/* SPDX-License-Identifier: Apache-2.0 */
/* The complete blobs of the images' folder (proto/images-dir.h). Whoever looks for one that is to
 * stay has claimed it before. */
#ifndef KOSA8_IMAGE_BLOBS_H
#define KOSA8_IMAGE_BLOBS_H

#include "images.h"

#include "../base/buf.h"

/* Opened for reading, with its size; ERR_NOT_FOUND. One that may have suffered is hashed, and
 * removed when it is damaged. */
int blobs_open(
	const struct images *i, const char *digest, uint64_t *ret_size, struct err *e) must_check;
/* The same without a look at what it holds: for a reader that hashes it. */
int blobs_open_unchecked(
	const struct images *i, const char *digest, uint64_t *ret_size, struct err *e) must_check;
bool blobs_have(const struct images *i, const char *digest);
/* Whether there is any at all. */
bool blobs_any(const struct images *i);
/* A small document: as all of it is in memory then, it need not be claimed. Checked against its
 * digest: ERR_NOT_FOUND, ERR_CORRUPT, ERR_LIMIT over max_bytes. ret is initialised here, released
 * by the caller also on failure. */
int blobs_read(const struct images *i, const char *digest, size_t max_bytes, struct buf *ret,
	struct err *e) must_check;
/* Keeps a document under the digest that it has; nothing happens when it is there. */
int blobs_put(const struct images *i, const char *digest, const void *data, size_t len,
	struct err *e) must_check;
/* A file NAME below dirfd, whose content has this digest, becomes the blob. */
int blobs_adopt(const struct images *i, int dirfd, const char *name, const char *digest,
	struct err *e) must_check;
/* Brings them to the disk for sure. */
int blobs_sync(
	const struct images *i, const char *const *digests, size_t n, struct err *e) must_check;
/* Hashes it: ERR_CORRUPT when it is damaged, and it is removed. */
int blobs_verify(const struct images *i, const char *digest, struct err *e) must_check;

#endif
