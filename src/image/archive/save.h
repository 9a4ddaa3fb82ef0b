/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An oci-archive of images that are here: a tar of an OCI layout (image-spec image-layout.md) with
 * index.json, one entry a name, and blobs/, each once and byte for byte as it was published. It
 * also has the manifest.json that older versions of docker load. Equal images and names, in any
 * order, give equal bytes.
 *
 * An entry's annotations are those of docker's own exporter: io.containerd.image.name is the whole
 * name, org.opencontainers.image.ref.name its tag. Where two images would have the same tag, the
 * latter is the whole name too, so that each can be told by it.
 */
#ifndef KOSA8_IMAGE_ARCHIVE_SAVE_H
#define KOSA8_IMAGE_ARCHIVE_SAVE_H

#include "../images.h"

#define SAVE_FD 3

/* Each operand: DIGEST[=REF]. Writes to SAVE_FD; what was written before a failure is of no use.
 * ERR_NOT_FOUND or ERR_CORRUPT names a blob that is missing or damaged (the latter is removed).
 * *ret: the worker's last line (worker.h). */
int save_images(char *const *operands, size_t n, const struct images *images, json_t **ret,
	struct err *e) must_check;

#endif
