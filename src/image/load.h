/* SPDX-License-Identifier: Apache-2.0 */
/* Images from a file: what `docker save`, `podman save`, skopeo, umoci and buildkit write. */
#ifndef KOSA8_IMAGE_LOAD_H
#define KOSA8_IMAGE_LOAD_H

#include "claim.h"
#include "manifest.h"

#define LOAD_IMAGES_MAX 64
#define LOAD_NAMES_MAX 256

/* path: a tar, an OCI layout's folder, or "-" for stdin. An OCI layout is preferred where an
 * archive is both. *ret: the worker's last line (worker.h). */
int load_images(const char *path, const struct platform *p, const struct images *images,
	struct claim *claim, json_t **ret, struct err *e) must_check;

#endif
