/* SPDX-License-Identifier: Apache-2.0 */
/* http.c drives the transfers; http-request.c says what is sent and whom to trust, http-proxy.c
 * which proxy was taken, http-fault.c what went wrong. */
#ifndef KOSA8_IMAGE_REGISTRY_HTTP_INTERNAL_H
#define KOSA8_IMAGE_REGISTRY_HTTP_INTERNAL_H

#include "http.h"

#include <curl/curl.h>

struct http_transfer {
	CURL *easy;
	struct curl_slist *headers;
	char *url;		       /* where it is now, after redirects */
	char origin[HTTP_ORIGIN_MAX];  /* of the caller's url */
	char current[HTTP_ORIGIN_MAX]; /* of url */
	unsigned redirects;
	int64_t last_ms;    /* the last progress, from which a stall is counted */
	uint64_t fresh;	    /* bytes that arrived since */
	uint64_t fresh_min; /* so many are progress */
	bool began;	    /* the answer's first line is here */
	bool answered;	    /* on_answer was called */
	int refused;	    /* what a callback returned, < 0 */
	char text[CURL_ERROR_SIZE];
};

/* What holds for all requests of a call. */
void http_request_init(struct http_call *c, long connect_ms);
/* What depends on where transfer->url leads: credentials, certificates, proxy. */
int http_request_prepare(struct http_call *c, struct err *e) must_check;
void http_request_release(struct http_transfer *t);

/* The proxy that is asked for an origin, for messages. */
struct http_proxy {
	char host[HTTP_ORIGIN_MAX]; /* HOST:PORT without credentials; "": not an address */
	const char *variable;	    /* "https_proxy": what names it */
};
bool http_proxy_find(const char *origin, struct http_proxy *ret); /* false: none */

/* libcurl ended the call with this code: result and err. */
void http_fault(struct http_call *c, CURLcode code);
void http_proxy_wants_credentials(struct http_call *c);

#endif
