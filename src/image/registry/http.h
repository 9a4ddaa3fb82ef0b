/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl, wrapped: GET requests (and POST of a form), several at once in one thread. Rules that
 * hold for every call:
 *
 *  - Redirects (at most 5) are followed here, not by libcurl: the Authorization header goes on only
 *    while scheme, host and port stay the same; from https only to https. A form is never sent on.
 *  - Only http and https. Certificates are checked against SSL_CERT_FILE, SSL_CERT_DIR or the
 *    system's store, and the host's own (certs.h).
 *  - Proxies of the environment (http_proxy, https_proxy, all_proxy, no_proxy, or in capitals),
 *    never for loopback. No message holds a proxy's credentials.
 *  - A call ends when an answer does not begin within the stall time, or when less than
 *    HTTP_SPEED_MIN arrives during it: a server cannot hold us for ever with a byte now and then.
 *    Connecting has its own limit.
 *  - URLs are never put into a message, as a redirect's may hold a signature: only hosts are.
 *
 * A body goes to on_data only for 200 and 206; of any other answer the first 8 KiB are kept.
 */
#ifndef KOSA8_IMAGE_REGISTRY_HTTP_H
#define KOSA8_IMAGE_REGISTRY_HTTP_H

#include "challenge.h"
#include "origin.h"

#include "../../base/buf.h"

#include <stdint.h>

#define HTTP_CALLS_MAX 8
#define HTTP_SPEED_MIN 1000 /* bytes a second, over the stall time */

struct http;
struct http_call;

struct http_answer {
	long status;		/* 0: none came */
	bool elsewhere;		/* of another origin, after a redirect: no credentials go there */
	int64_t length;		/* Content-Length, -1: not given */
	uint64_t retry_after_s; /* 0: not given */
	char content_type[128]; /* without parameters, lower case */
	char content_range[96];
	char digest[96];   /* Docker-Content-Digest, as it came */
	char encoding[32]; /* Content-Encoding; "" also for identity */
	struct challenge challenge;
};

enum http_result {
	HTTP_PENDING,
	HTTP_ANSWERED, /* answer is whole; its status may still be an error */
	HTTP_BROKEN,   /* err says how; another try may help */
	HTTP_FAILED,   /* err says how; another try will not help */
};

struct http_call {
	/* Set by the caller; must live until the call has ended. */
	const char *url;
	const char *accept;	   /* or NULL */
	const char *authorization; /* "Bearer ..." or NULL */
	const char *form;	   /* POSTed as application/x-www-form-urlencoded; NULL: a GET */
	uint64_t range_from;	   /* 0: all */
	bool head;		   /* HEAD: there will be no body */
	/* Both may be NULL. Once, before the first on_data, for 200 and 206. A negative return ends
	 * the call with this err: -EAGAIN as HTTP_BROKEN, else as HTTP_FAILED. */
	int (*on_answer)(struct http_call *c, struct err *e);
	int (*on_data)(struct http_call *c, const void *data, size_t len, struct err *e);
	void *ctx;

	/* Valid when it has ended. */
	enum http_result result;
	struct http_answer answer;
	struct buf error_body;
	struct err err;

	struct http_transfer *transfer; /* http.c's own */
};

int http_new(struct http **ret, struct err *e) must_check;
void http_free(struct http *h);
void http_freep(struct http **h);
#define cleanup_http __attribute__((cleanup(http_freep)))

int http_start(struct http *h, struct http_call *c, struct err *e) must_check;
/* Drives all calls until one has ended, which is returned, or timeout_ms have passed: NULL. */
struct http_call *http_wait(struct http *h, int timeout_ms);
/* Forgets a call, running or ended, and frees what it holds. A zeroed call is accepted. */
void http_call_release(struct http *h, struct http_call *c);

/* A time limit from the environment, at most 600000; fallback when it is not set or no number. */
uint64_t http_env_ms(const char *name, uint64_t fallback);

#endif
