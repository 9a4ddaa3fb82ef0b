/* SPDX-License-Identifier: Apache-2.0 */
/* From a registry to a finished image. */
#ifndef KOSA8_IMAGE_PULL_H
#define KOSA8_IMAGE_PULL_H

#include "claim.h"
#include "manifest.h"

struct pull {
	const char *ref;
	struct platform platform;
	bool plain_http;
};

/* ret_claim (CLAIM_NONE before) is released by the caller, also on failure. *ret: the worker's last
 * line (worker.h). */
int pull_image(const struct pull *p, const struct images *images, struct claim *ret_claim,
	json_t **ret, struct err *e) must_check;

#endif
