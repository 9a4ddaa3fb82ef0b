/* SPDX-License-Identifier: Apache-2.0 */
/* URLs, as far as credentials depend on them: an origin is scheme, host and port. */
#ifndef KOSA8_IMAGE_REGISTRY_ORIGIN_H
#define KOSA8_IMAGE_REGISTRY_ORIGIN_H

#include "../../base/err.h"

#include <stdbool.h>

#define HTTP_URL_MAX 8192

/* "scheme://host:port" in lower case; ERR_PROTOCOL if url is not an http or https URL. */
#define HTTP_ORIGIN_MAX 300
int http_origin(const char *url, char ret[static HTTP_ORIGIN_MAX], struct err *e) must_check;
/* Whether the host of an origin is localhost or a loopback address. */
bool http_origin_is_loopback(const char *origin);
/* s as one value of a URL's query or of a form; NULL when out of memory. */
char *http_escape(const char *s);

#endif
