/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who we are to one registry. Without credentials a Bearer token is asked for anonymously; with
 * them (the "auths" of docker's config.json) they go to the token server that the registry names,
 * or to the registry itself where that asks for Basic. Nothing here does I/O but reading that file.
 *
 * What this object holds is secret: it goes into an Authorization header and nowhere else.
 */
#ifndef KOSA8_IMAGE_AUTH_H
#define KOSA8_IMAGE_AUTH_H

#include "challenge.h"

#include "../base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define AUTH_TOKEN_MAX (32u * 1024)

struct auth {
	char *basic;	     /* "Basic ..." from the configuration, or NULL */
	char *authorization; /* what requests to the registry carry now, or NULL */
	unsigned generation; /* counts the changes of authorization */
	bool has_helpers;    /* config.json names a credential helper: not spoken here */
};

/* Reads $DOCKER_CONFIG/config.json or ~/.docker/config.json; a missing file means no credentials,
 * one that cannot be read is an error. registry as in struct reference. */
int auth_load(const char *registry, struct auth *ret, struct err *e) must_check;
/* The same from the file's text. */
int auth_parse_config(const char *registry, const void *data, size_t len, struct auth *ret,
	struct err *e) must_check;
void auth_release(struct auth *a);

/* The registry answered 401 with this challenge. For Bearer: *ret_url is the token server's address
 * with its query (malloc'ed), scope being used when the challenge names none. For Basic: *ret_url
 * is NULL and authorization is set. ERR_DENIED when there is nothing to answer with. */
int auth_respond(struct auth *a, const struct challenge *c, const char *scope, char **ret_url,
	struct err *e) must_check;
/* The token server's answer. ERR_PROTOCOL. */
int auth_accept_token(struct auth *a, const void *data, size_t len, struct err *e) must_check;

#endif
