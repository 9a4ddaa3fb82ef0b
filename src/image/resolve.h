/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a name to one image: through indexes (at most RESOLVE_DEPTH_MAX below one another) to the
 * platform's manifest and its configuration. Where the documents come from, a registry or an OCI
 * layout, is behind struct documents.
 */
#ifndef KOSA8_IMAGE_RESOLVE_H
#define KOSA8_IMAGE_RESOLVE_H

#include "config.h"
#include "manifest.h"

#include "../base/buf.h"

#define RESOLVE_DEPTH_MAX 3

struct documents {
	/* The document of this digest, checked against it, into ret (initialised here, released by
	 * the caller also on failure). is_config: a blob, not a manifest. */
	int (*get)(struct documents *d, const struct descriptor *descriptor, bool is_config,
		struct buf *ret, struct err *e);
};

struct image {
	char digest[REFERENCE_DIGEST_SIZE]; /* of its manifest */
	struct manifest manifest;
	struct image_config config;
};
void image_release(struct image *i);
#define cleanup_image __attribute__((cleanup(image_release)))

/* root: the bytes that the name led to, with the digest of these bytes. */
int resolve_root(struct documents *d, const void *root, size_t len, const char *digest,
	const char *content_type, const struct platform *p, struct image *ret,
	struct err *e) must_check;
/* The same from a descriptor. */
int resolve_descriptor(struct documents *d, const struct descriptor *root, const struct platform *p,
	struct image *ret, struct err *e) must_check;
/* The sum of the layers' sizes. */
uint64_t image_layers_size(const struct image *i);

#endif
