/* SPDX-License-Identifier: Apache-2.0 */
/* What an oci-archive is going to hold: images, names, and the documents that list them. */
#ifndef KOSA8_IMAGE_ARCHIVE_SAVED_H
#define KOSA8_IMAGE_ARCHIVE_SAVED_H

#include "../images.h"
#include "../manifest.h"

#include "../../base/buf.h"

#define SAVED_NAMES_MAX 256 /* as load reads: LOAD_NAMES_MAX, LOAD_IMAGES_MAX */
#define SAVED_IMAGES_MAX 64

struct saved_image {
	char digest[REFERENCE_DIGEST_SIZE];
	char media_type[MANIFEST_TYPE_SIZE];
	uint64_t size; /* of the manifest */
	struct manifest manifest;
};

struct saved_name {
	char digest[REFERENCE_DIGEST_SIZE];
	char canonical[REFERENCE_CANONICAL_SIZE]; /* "": the image without a name */
	char tag[REFERENCE_TAG_MAX + 1];	  /* "": none */
};

/* Both sorted, so that the order in which they were asked for does not matter. */
struct saved {
	struct saved_image images[SAVED_IMAGES_MAX];
	size_t images_len;
	struct saved_name names[SAVED_NAMES_MAX];
	size_t names_len;
};
/* operands: DIGEST[=REF]. The caller holds the folder's lock. ret is zeroed before, released also
 * on failure. */
int saved_read(const struct images *i, char *const *operands, size_t n, struct saved *ret,
	struct err *e) must_check;
void saved_release(struct saved *s);

/* index.json and manifest.json. ret is initialised here, released by the caller also on failure. */
int saved_put_index(const struct saved *s, struct buf *ret, struct err *e) must_check;
int saved_put_docker_manifest(const struct saved *s, struct buf *ret, struct err *e) must_check;

#endif
