/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manifests and indexes (OCI image-spec manifest.md and image-index.md; Docker's "schema 2"
 * manifest and manifest list, which have the same shape). What is no image of layers is refused by
 * its name: schema 1, artifacts such as Helm charts, encrypted and non-distributable layers.
 */
#ifndef KOSA8_IMAGE_MANIFEST_H
#define KOSA8_IMAGE_MANIFEST_H

#include "../base/err.h"
#include "../proto/reference.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MANIFEST_BYTES_MAX (4u * 1024 * 1024)
#define MANIFEST_LAYERS_MAX 127 /* as docker */
#define MANIFEST_ENTRIES_MAX 1024
#define MANIFEST_TYPE_SIZE 128
#define LAYER_BYTES_MAX (UINT64_C(64) << 30)

/* All that can be a root, for the Accept header. */
#define MANIFEST_ACCEPT                                                                         \
	"application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, " \
	"application/vnd.docker.distribution.manifest.list.v2+json, "                           \
	"application/vnd.docker.distribution.manifest.v2+json"

struct platform {
	char os[32];
	char arch[32];
	char variant[32]; /* "": any */
};
#define PLATFORM_TEXT_SIZE 100

/* OS/ARCH[/VARIANT]; ERR_INVALID. */
int platform_parse(const char *text, struct platform *ret, struct err *e) must_check;
void platform_format(const struct platform *p, char ret[static PLATFORM_TEXT_SIZE]);

struct descriptor {
	char digest[REFERENCE_DIGEST_SIZE];
	uint64_t size;
	char media_type[MANIFEST_TYPE_SIZE];
	/* Only in an index: */
	struct platform platform; /* os "": not given */
	bool attached;		  /* an attestation, a signature: about an image, not one */
	char ref[512];		  /* the name that an OCI layout gives it; "": none */
};

enum manifest_kind { MANIFEST_IMAGE, MANIFEST_INDEX };

struct manifest {
	enum manifest_kind kind;
	struct descriptor config;	/* of an image */
	struct descriptor *descriptors; /* layers, lowest first; or the index's entries */
	size_t len;
};
void manifest_release(struct manifest *m);
#define cleanup_manifest __attribute__((cleanup(manifest_release)))

/* content_type is the transport's word on it, or NULL; the document's own mediaType counts more. */
int manifest_parse(const void *data, size_t len, const char *content_type, struct manifest *ret,
	struct err *e) must_check;
/* Whether a descriptor of that media type is itself an index. */
bool manifest_is_index_type(const char *media_type);

/* Which entry of an index is the platform's: an exact match, else one of the same os and
 * architecture without or with another variant, else a nested index, else one that does not say.
 * skip: how many of that order to pass over. NULL when there is none (left). */
const struct descriptor *manifest_choose(
	const struct manifest *index, const struct platform *p, size_t skip);
/* "the image is for linux/arm64 only" */
int manifest_wrong_platform(
	const struct manifest *index, const struct platform *wanted, struct err *e);

#endif
