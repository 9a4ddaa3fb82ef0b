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

struct document {
	char digest[REFERENCE_DIGEST_SIZE];
	struct buf bytes;
};

#define IMAGE_DOCUMENTS_MAX (RESOLVE_DEPTH_MAX + 2)

struct image {
	char digest[REFERENCE_DIGEST_SIZE]; /* of its manifest */
	struct manifest manifest;
	struct image_config config;
	/* As they were published: configuration, manifest, and the indexes that led to it. */
	struct document documents[IMAGE_DOCUMENTS_MAX];
	size_t documents_len;
};
/* Takes the bytes. */
void image_add_document(struct image *i, const char *digest, struct buf *bytes);
void image_release(struct image *i);
#define cleanup_image __attribute__((cleanup(image_release)))

/* root: the bytes that the name led to, with the digest of these bytes; taken on success.
 * content_type: as manifest_parse(). */
int resolve_root(struct documents *d, struct buf *root, const char *digest,
	const char *content_type, const struct platform *p, struct image *ret,
	struct err *e) must_check;
/* The same from a descriptor. */
int resolve_descriptor(struct documents *d, const struct descriptor *root, const struct platform *p,
	struct image *ret, struct err *e) must_check;
/* The sum of the layers' sizes. */
uint64_t image_layers_size(const struct image *i);

#endif
