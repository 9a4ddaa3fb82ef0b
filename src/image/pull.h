/* SPDX-License-Identifier: Apache-2.0 */
/* From a registry to a finished image. */
#ifndef KOSA8_IMAGE_PULL_H
#define KOSA8_IMAGE_PULL_H

#include "images.h"
#include "manifest.h"

struct pull {
	const char *ref;
	struct platform platform;
	bool plain_http;
};

/* *ret: the worker's last line (worker.h). */
int pull_image(
	const struct pull *p, const struct images *images, json_t **ret, struct err *e) must_check;

#endif
