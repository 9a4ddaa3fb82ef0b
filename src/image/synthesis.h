/* SPDX-License-Identifier: Apache-2.0 */
/* A manifest for an image that came without one: its digest is what the image is known by. Equal
 * configuration and layer files give an equal digest. */
#ifndef KOSA8_IMAGE_SYNTHESIS_H
#define KOSA8_IMAGE_SYNTHESIS_H

#include "manifest.h"

/* Digest, size and media type (by the first bytes) of a file that is a layer. */
int synthesis_layer(int fd, struct descriptor *ret, struct err *e) must_check;
/* The digest of an OCI manifest over these. */
int synthesis_digest(const void *config, size_t config_len, const struct descriptor *layers,
	size_t n, char ret[static REFERENCE_DIGEST_SIZE], struct err *e) must_check;

#endif
