/* SPDX-License-Identifier: Apache-2.0 */
/* A repository of a registry (OCI distribution-spec): its manifests and blobs. */
#ifndef KOSA8_IMAGE_REGISTRY_H
#define KOSA8_IMAGE_REGISTRY_H

#include "blob.h"
#include "fetch.h"
#include "resolve.h"

struct registry {
	struct documents documents; /* first: this repository's, for resolve.h */
	struct reference ref;
	char name[REFERENCE_CANONICAL_SIZE]; /* canonical, for messages */
	char base[HTTP_ORIGIN_MAX];	     /* https://registry.example.com */
	char host[HTTP_ORIGIN_MAX];	     /* registry.example.com */
	char scope[REFERENCE_NAME_MAX + 32];
	struct auth auth;
	struct fetcher fetcher;
};

/* KOSA8_REGISTRY_MIRROR may send it elsewhere (worker.h). Makes no request, but for a registry on
 * loopback, which is asked whether it speaks plain HTTP (tried first there) or TLS. plain_http: no
 * TLS on any host. */
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
