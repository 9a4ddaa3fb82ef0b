/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's claim on what it needs (proto/images-dir.h). */
#ifndef KOSA8_IMAGE_CLAIM_H
#define KOSA8_IMAGE_CLAIM_H

#include "images.h"
#include "wait.h"

struct claim {
	const struct images *images;
	int fd; /* holds the lock */
	char name[80];
};
#define CLAIM_NONE       \
	{                \
		.fd = -1 \
	}

/* digest: the one image that is to be made; waits for another worker that makes it, with a notice,
 * unless w says that it does not get on: then it is a claim of a name of its own, and both make the
 * image. digest NULL: a claim of a name of its own. */
int claim_take(const struct images *i, const char *digest, const struct wait *w, struct claim *ret,
	struct err *e) must_check;
/* Adds digests ("sha256:HEX") that are not in it: from here on they are not swept, whether they are
 * there or not. */
int claim_add(struct claim *c, const char *const *digests, size_t n, struct err *e) must_check;

enum claim_end {
	CLAIM_DONE,    /* what it names is in the catalog, or the sweep's */
	CLAIM_KEEP,    /* the next try may continue */
	CLAIM_DISCARD, /* nothing may stay */
};
/* Lets it go. DISCARD removes, of what it names, partial downloads and blobs that are not on disk
 * for sure, so that no catalog can have them, unless another claim names them too. KEEP does that
 * with partial downloads that are too small to be worth it, and keeps the claim if anything is
 * left. A CLAIM_NONE is accepted. */
void claim_release(struct claim *c, enum claim_end end);

#endif
