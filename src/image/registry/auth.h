/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who we are to one registry. Without credentials a Bearer token is asked for anonymously; with
 * them they go to the token server that the registry names, or to the registry itself where that
 * asks for Basic. They are looked up (credentials.h) before it is spoken to, as what is read then
 * has no business near what a registry sends; that they could not be had matters only when the
 * registry asks for some. Where a credential helper failed and a Bearer token will do, it is asked
 * for anonymously: most images are public.
 *
 * What this object holds is secret: it goes into a request and nowhere else.
 */
#ifndef KOSA8_IMAGE_REGISTRY_AUTH_H
#define KOSA8_IMAGE_REGISTRY_AUTH_H

#include "challenge.h"
#include "credentials.h"

#include <stdbool.h>
#include <stddef.h>

#define AUTH_TOKEN_MAX (32u * 1024)

struct auth {
	char registry[300]; /* as in struct reference: whose credentials */
	struct credentials credentials;
	bool looked_up;
	struct err failed;   /* why there are none; ERR_NONE: nothing failed */
	char *authorization; /* what requests to the registry carry now, or NULL */
	bool noted;	     /* that there are none as a helper failed */
	unsigned generation; /* counts the changes of authorization */
};
void auth_init(struct auth *a, const char *registry);
void auth_release(struct auth *a);
#define cleanup_auth __attribute__((cleanup(auth_release)))
/* Looks them up, once. 1: not yet, as a credential helper would have to be started and ask_helpers
 * is false. A failure is kept for auth_respond(). */
int auth_look_up(struct auth *a, bool ask_helpers) must_check;

/* How to get a token: POST form to form_url if there is a form, else, and when that server does not
 * do that, GET url with this Authorization. */
struct token_request {
	char *url;
	char *authorization; /* "Basic ...", or NULL: anonymous */
	char *form_url;
	char *form; /* OAuth 2 (RFC 6749 section 6), or NULL */
};
void token_request_release(struct token_request *t);
#define cleanup_token_request __attribute__((cleanup(token_request_release)))

/* The registry answered 401 with this challenge. For Bearer: how to get a token; for what the
 * challenge's scope leaves of a pull (challenge.h), or else for scope; "": for nothing. Else
 * ret->url is NULL and authorization is set. ERR_DENIED when there is nothing to answer with,
 * ERR_PROTOCOL when the challenge cannot be read. */
int auth_respond(struct auth *a, const struct challenge *c, const char *scope,
	struct token_request *ret, struct err *e) must_check;
/* What people are to be told after that, once: that of a helper or of docker's file. Else NULL. */
const char *auth_notice(struct auth *a);
/* Adds such a failure to the error that access is refused. */
int auth_blame_others(const struct auth *a, struct err *e);
/* The token server's answer. ERR_PROTOCOL. */
int auth_accept_token(struct auth *a, const void *data, size_t len, struct err *e) must_check;
/* Access is refused although a token or credentials were sent, or there were none: sets the error
 * "WHAT: HOST refuses access (401)" and what to do. */
int auth_refused(const struct auth *a, const char *what, const char *host, struct err *e);
/* Whether text holds a secret of ours. */
bool auth_is_told(const struct auth *a, const char *text);

#endif
