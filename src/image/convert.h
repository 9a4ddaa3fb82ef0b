/* SPDX-License-Identifier: Apache-2.0 */
/* Layers to file system image, by the confined worker kosa8-unpack (unpack/unpack-main.c has the
 * contract of its descriptors and report). */
#ifndef KOSA8_IMAGE_CONVERT_H
#define KOSA8_IMAGE_CONVERT_H

#include "images.h"

#define CONVERT_FILE "image.sqfs" /* the result's name in the work folder */

/* Where the layers are from, which decides what can be done about bad ones. */
enum convert_from { CONVERT_PULL, CONVERT_LOAD, CONVERT_IMPORT, CONVERT_FROM_COUNT };

struct converted {
	uint64_t size;
	json_t *diff_ids; /* array of "sha256:...", one a layer, of the uncompressed tars */
};
void converted_release(struct converted *c);
#define cleanup_converted __attribute__((cleanup(converted_release)))

/* Whether kosa8-unpack is installed: before something is fetched for it. ERR_UNAVAILABLE. */
int convert_check(struct err *e) must_check;
/* layers: regular files opened for reading, lowest first. On failure no CONVERT_FILE is left. */
int convert_layers(const struct workdir *w, enum convert_from from, const int *layers, size_t n,
	struct converted *ret, struct err *e) must_check;

#endif
