/* SPDX-License-Identifier: Apache-2.0 */
/* The last steps that all ways to an image share, and what the worker says about one. */
#ifndef KOSA8_IMAGE_FINISH_H
#define KOSA8_IMAGE_FINISH_H

#include "claim.h"
#include "resolve.h"

/* Compares the layers' digests after unpacking with the configuration's: ERR_CORRUPT. */
int finish_check_diff_ids(
	const struct image_config *config, const json_t *diff_ids, struct err *e) must_check;
/* Claims all that the image consists of: documents and layers. */
int finish_claim(struct claim *c, const struct image *image, struct err *e) must_check;
/* Keeps its documents, and brings them and its layers, which are there, to the disk for sure: the
 * last step before images_publish(). */
int finish_keep(const struct images *i, const struct image *image, struct err *e) must_check;
/* The result's object (worker.h); ref may be NULL. NULL with *e set when there is no memory. */
json_t *finish_result(
	const struct image *image, const char *ref, uint64_t size, bool cached, struct err *e);

#endif
