/* SPDX-License-Identifier: Apache-2.0 */
/* The documents of an image that is here, as they were published. */
#ifndef KOSA8_IMAGE_SHOW_H
#define KOSA8_IMAGE_SHOW_H

#include "images.h"

/* digest: of a manifest. *ret: the worker's last line (worker.h). */
int show_image(
	const char *digest, const struct images *images, json_t **ret, struct err *e) must_check;

#endif
