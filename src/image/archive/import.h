/* SPDX-License-Identifier: Apache-2.0 */
/* An image from a root file system's tar: one layer, kept as the tar is, with a configuration given
 * beside it. The same tar and configuration give the same digest: nothing in it tells the time. */
#ifndef KOSA8_IMAGE_ARCHIVE_IMPORT_H
#define KOSA8_IMAGE_ARCHIVE_IMPORT_H

#include "../claim.h"

/* path: a tar (plain or compressed) or "-" for stdin; config: config.h's image_config_make(). *ret:
 * the worker's last line (worker.h). */
int import_image(const char *path, const char *config, const struct images *images,
	struct claim *claim, json_t **ret, struct err *e) must_check;

#endif
