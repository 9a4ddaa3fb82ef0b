/* SPDX-License-Identifier: Apache-2.0 */
/* A token from the server that a registry names (the distribution project's token specification,
 * and its OAuth 2 form for identity tokens). */
#ifndef KOSA8_IMAGE_REGISTRY_TOKEN_H
#define KOSA8_IMAGE_REGISTRY_TOKEN_H

#include "fetch.h"

/* Sets x->auth's authorization. registry_url: what was asked for when the registry refused it; a
 * registry that speaks TLS cannot send the credentials to a server that does not. */
int token_get(struct fetcher *x, const struct token_request *t, const char *registry_url,
	struct err *e) must_check;

#endif
