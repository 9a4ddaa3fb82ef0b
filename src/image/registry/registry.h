/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A repository of a registry (OCI distribution-spec): its manifests and blobs. Where mirrors are
 * named for the registry (mirrors.h) these are asked instead, in their order: the next one as soon
 * as one cannot be reached, does not have what was asked for, limits the requests, fails or refuses
 * access. What is named by its digest may come from any of them.
 */
#ifndef KOSA8_IMAGE_REGISTRY_REGISTRY_H
#define KOSA8_IMAGE_REGISTRY_REGISTRY_H

#include "../blob.h"
#include "endpoint.h"
#include "../resolve.h"

struct registry {
	struct documents documents; /* first: this repository's, for resolve.h */
	struct reference ref;
	char name[REFERENCE_CANONICAL_SIZE]; /* canonical, for messages */
	char scope[REFERENCE_NAME_MAX + 32];
	struct endpoint endpoint; /* that is asked now */
	struct mirrors mirrors;
	struct auth accounts[MIRRORS_MAX]; /* of each mirror; without mirrors one, the registry's */
	size_t accounts_len;
	bool plain_http;
	size_t next_mirror;
	char tried[240]; /* "HOST (WHY), ..." of those before */
	struct output *output;
};

/* plain_http: no TLS, but for mirrors as they say. */
int registry_init(struct registry *r, const struct reference *ref, bool plain_http,
	struct output *output, struct err *e) must_check;
/* The credentials for all hosts that may be asked, as auth_look_up() does for one. After this
 * nothing of the user's is read, and no program of his started, but certificates. */
int registry_look_up(struct registry *r, bool ask_helpers) must_check;
/* Makes no request. */
int registry_open(struct registry *r, struct err *e) must_check;
void registry_release(struct registry *r);
#define cleanup_registry __attribute__((cleanup(registry_release)))

/* The document that the reference names (ret is initialised here, released by the caller), its
 * digest, and the media type that the registry gives it. */
int registry_root(struct registry *r, struct buf *ret, char digest[static REFERENCE_DIGEST_SIZE],
	char type[static MANIFEST_TYPE_SIZE], struct err *e) must_check;
/* What the registry says is the digest of the document that the tag leads to now; ERR_NOT_FOUND
 * also when it does not say, or when another mirror is still to be asked. */
int registry_head(
	struct registry *r, char digest[static REFERENCE_DIGEST_SIZE], struct err *e) must_check;
/* Fetches those blobs that are OURS or PRIVATE. */
int registry_fetch_blobs(
	struct registry *r, struct blob *blobs, size_t n, struct err *e) must_check;

#endif
