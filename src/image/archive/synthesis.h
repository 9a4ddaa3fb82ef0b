/* SPDX-License-Identifier: Apache-2.0 */
/* A manifest for an image that came without one: its digest is what the image is known by. Equal
 * configuration and layer files give an equal digest. */
#ifndef KOSA8_IMAGE_ARCHIVE_SYNTHESIS_H
#define KOSA8_IMAGE_ARCHIVE_SYNTHESIS_H

#include "copy.h"
#include "../resolve.h"

/* Of a file with this content that is a layer; its media type is found by the first bytes. */
int synthesis_layer(
	int fd, const struct copied *content, struct descriptor *ret, struct err *e) must_check;
/* An image of this configuration (as in config, parsed from these bytes) and these layers, both
 * taken on success, with the manifest made for them (OCI image-spec manifest.md). */
int synthesis_image(struct buf *config_bytes, struct image_config *config,
	const struct descriptor *layers, size_t n, struct image *ret, struct err *e) must_check;

#endif
