/* SPDX-License-Identifier: Apache-2.0 */
/* KOSA8_REGISTRY_MIRROR: REGISTRY=URL,... A registry may be named several times. */
#ifndef KOSA8_IMAGE_REGISTRY_MIRRORS_H
#define KOSA8_IMAGE_REGISTRY_MIRRORS_H

#include "../../base/err.h"

#include <stddef.h>

#define MIRRORS_MAX 8
#define MIRROR_URL_SIZE 300

struct mirrors {
	char urls[MIRRORS_MAX][MIRROR_URL_SIZE]; /* without a slash at the end */
	size_t len;				 /* 0: the registry itself is asked */
};

/* Those of one registry, in their order; list may be NULL, and REGISTRY written as in a reference.
 * ERR_INVALID, naming the entry, for one of any registry that is not REGISTRY=http://HOST[/PATH] or
 * https://HOST[/PATH]; ERR_LIMIT for too many. Empty entries (a comma too many) are passed over. */
int mirrors_parse(
	const char *list, const char *registry, struct mirrors *ret, struct err *e) must_check;

#endif
