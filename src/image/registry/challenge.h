/* SPDX-License-Identifier: Apache-2.0 */
/* A registry's WWW-Authenticate header (RFC 9110 section 11.6.1; the Bearer parameters are those of
 * the distribution project's token specification). */
#ifndef KOSA8_IMAGE_REGISTRY_CHALLENGE_H
#define KOSA8_IMAGE_REGISTRY_CHALLENGE_H

#include "../../base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum challenge_scheme {
	CHALLENGE_NONE, /* no header, or only schemes that are not spoken here */
	CHALLENGE_BASIC,
	CHALLENGE_BEARER,
};

struct challenge {
	enum challenge_scheme scheme;
	/* Printable ASCII, "" when missing. */
	char realm[1024];
	char service[256];
	char scope[1024];
	char error[64];
	bool unreadable; /* a header could not be read, or not all of it */
};

/* What a pull needs of a challenge's scope (several, with blanks between): of each repository with
 * the action pull "repository:NAME:pull", nothing else. "" when nothing is left. */
void challenge_pull_scope(const char *scope, char *ret, size_t size);

/* Reads one header value (there may be several headers, and several challenges in one) into *c,
 * which starts zeroed; Bearer is preferred to Basic, the first of a kind to a later one. -EPROTO,
 * and unreadable is set, when the value cannot be read; what was found before that stays. */
int challenge_parse(struct challenge *c, const char *value, size_t len) must_check;

#endif
