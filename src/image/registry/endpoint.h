/* SPDX-License-Identifier: Apache-2.0 */
/* Where a registry's resources are asked for, and as whom: the registry itself or a mirror of it.
 */
#ifndef KOSA8_IMAGE_REGISTRY_ENDPOINT_H
#define KOSA8_IMAGE_REGISTRY_ENDPOINT_H

#include "fetch.h"
#include "mirrors.h"

struct endpoint {
	char base[MIRROR_URL_SIZE]; /* https://registry.example.com, in front of /v2/ */
	char host[HTTP_ORIGIN_MAX]; /* registry.example.com, for messages */
	bool undecided;	   /* base is plain HTTP, but it may turn out that TLS is spoken there */
	struct auth *auth; /* borrowed */
	struct fetcher fetcher; /* points into the endpoint, which stays where it is */
};

/* The registry itself. Makes no request. On loopback plain HTTP is tried first: the endpoint is
 * undecided until it has answered. plain_http: no TLS on any host. registry as in struct reference;
 * scope is borrowed. */
int endpoint_open(struct endpoint *p, const char *registry, bool plain_http, struct auth *auth,
	const char *scope, struct output *output, struct err *e) must_check;
int endpoint_open_mirror(struct endpoint *p, const char *url, struct auth *auth, const char *scope,
	struct output *output, struct err *e) must_check;
/* Whose credentials a mirror gets: it is another host to us, with those for its own name, not those
 * for the registry, unless its name is that of the registry. */
void endpoint_mirror_account(const char *url, char ret[static HTTP_ORIGIN_MAX]);
/* Asks an undecided one whether it speaks plain HTTP or TLS. */
void endpoint_decide(struct endpoint *p);
/* A zeroed one is accepted. */
void endpoint_release(struct endpoint *p);

#endif
