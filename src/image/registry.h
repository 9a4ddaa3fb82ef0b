/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A repository of a registry (OCI distribution-spec): its manifests and blobs. Where mirrors are
 * named for the registry (mirrors.h) these are asked instead, in their order: the next one as soon
 * as one cannot be reached, does not have what was asked for, limits the requests, fails or refuses
 * access. What is named by its digest may come from any of them.
 */
#ifndef KOSA8_IMAGE_REGISTRY_H
#define KOSA8_IMAGE_REGISTRY_H

#include "blob.h"
#include "endpoint.h"
#include "resolve.h"

struct registry {
	struct documents documents; /* first: this repository's, for resolve.h */
	struct reference ref;
	char name[REFERENCE_CANONICAL_SIZE]; /* canonical, for messages */
	char scope[REFERENCE_NAME_MAX + 32];
	struct endpoint endpoint; /* that is asked now */
	struct mirrors mirrors;
	size_t next_mirror;
	char tried[240]; /* "HOST (WHY), ..." of those before */
	struct output *output;
};

/* Makes no request, but as endpoint_open() does. plain_http: no TLS, but for mirrors as they say.
 */
int registry_open(struct registry *r, const struct reference *ref, bool plain_http,
	struct output *output, struct err *e) must_check;
void registry_release(struct registry *r);
#define cleanup_registry __attribute__((cleanup(registry_release)))

/* Gets what the reference names and goes on to the platform's image. */
int registry_resolve(
	struct registry *r, const struct platform *p, struct image *ret, struct err *e) must_check;
/* Fetches those blobs that are not complete. */
int registry_fetch_blobs(
	struct registry *r, struct blob *blobs, size_t n, struct err *e) must_check;

#endif
