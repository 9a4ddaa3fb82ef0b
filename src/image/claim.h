/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's claim on what it needs (proto/images-dir.h). */
#ifndef KOSA8_IMAGE_CLAIM_H
#define KOSA8_IMAGE_CLAIM_H

#include "images.h"

struct claim {
	const struct images *images;
	int fd; /* holds the lock */
	char name[80];
};
#define CLAIM_NONE       \
	{                \
		.fd = -1 \
	}

/* digest: the one image that is to be made; waits for another worker that makes it, with a notice.
 * NULL: a claim of a name of its own. */
int claim_take(
	const struct images *i, const char *digest, struct claim *ret, struct err *e) must_check;
/* Adds digests ("sha256:HEX"): from here on they are not swept, whether they are there or not. */
int claim_add(struct claim *c, const char *const *digests, size_t n, struct err *e) must_check;
/* Lets it go. keep: what it names may be of use to the next worker. A CLAIM_NONE is accepted. */
void claim_release(struct claim *c, bool keep);

#endif
