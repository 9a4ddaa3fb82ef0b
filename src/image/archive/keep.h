/* SPDX-License-Identifier: Apache-2.0 */
/* The layers that a load or an import is going to keep: in the store already, or files of the work
 * folder. Nothing gets into the store before keep_publish(). */
#ifndef KOSA8_IMAGE_ARCHIVE_KEEP_H
#define KOSA8_IMAGE_ARCHIVE_KEEP_H

#include "../images.h"

struct keep_blob;
struct keep {
	const struct workdir *workdir;
	struct keep_blob *blobs;
	size_t len;
};
void keep_release(struct keep *k);
#define cleanup_keep __attribute__((cleanup(keep_release)))

/* A claimed digest. 1: its content has to be given with keep_file(); 0: it is there. */
int keep_wants(struct keep *k, const char *digest, struct err *e) must_check;
/* A file of the work folder with that content. */
void keep_file(struct keep *k, const char *digest, const char *file);
/* Opened for reading, wherever it is. */
int keep_open(
	const struct keep *k, const char *digest, uint64_t *ret_size, struct err *e) must_check;
/* All of them become blobs of the store. */
int keep_publish(struct keep *k, struct err *e) must_check;

#endif
