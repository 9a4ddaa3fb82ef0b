/* SPDX-License-Identifier: Apache-2.0 */
/* The last steps that all ways to an image share, and what the worker says about one. */
#ifndef KOSA8_IMAGE_FINISH_H
#define KOSA8_IMAGE_FINISH_H

#include "config.h"
#include "images.h"

/* Compares the layers' digests after unpacking with the configuration's: ERR_CORRUPT. */
int finish_check_diff_ids(
	const struct image_config *config, const json_t *diff_ids, struct err *e) must_check;
/* The result's object; ref may be NULL. NULL with *e set when there is no memory. */
json_t *finish_result(const char *digest, const char *ref, const struct image_config *config,
	uint64_t size, bool cached, struct err *e);

#endif
