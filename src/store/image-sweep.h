/* SPDX-License-Identifier: Apache-2.0 */
/* Removes from the images' folder what nobody needs (proto/images-dir.h), and measures it. */
#ifndef KOSA8_STORE_IMAGE_SWEEP_H
#define KOSA8_STORE_IMAGE_SWEEP_H

#include "catalog.h"

/* The folder's lock: held while the catalog's images change together with files, and for a sweep.
 * Waits; the holder has it for moments only. Returns the descriptor. */
int image_lock(const struct home *h, struct err *e) must_check;

struct image_sweep {
	bool all;	      /* in: also what interrupted pulls may be continued with */
	uint64_t freed_bytes; /* out: allocated bytes of what was removed */
	uint64_t removed;     /* out: files and folders */
};
/* The caller holds image_lock(). Goes on after a file that cannot be removed, and returns the first
 * error. What is not known in the folder is left alone. */
int image_sweep(
	struct catalog *c, const struct home *h, struct image_sweep *s, struct err *e) must_check;

/* Whether the file at this path below the folder ("HEX.sqfs", "blobs/sha256/HEX") is one that a row
 * of the catalog names. The set is of the moment when it was read. */
struct image_files;
int image_files_read(struct catalog *c, struct image_files **ret, struct err *e) must_check;
bool image_files_has(const struct image_files *f, const char *path);
void image_files_free(struct image_files *f);

#endif
