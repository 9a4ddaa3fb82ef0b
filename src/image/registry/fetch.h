/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One registry's resources, fetched with all that goes wrong on the way: a token when it is asked
 * for, up to FETCH_TRIES tries with a growing pause where another try may help (no connection, a
 * stall, an answer that ended early, 408, 429, 5xx), Retry-After up to FETCH_RETRY_AFTER_MAX_S,
 * and a message that says what was asked of whom. Several at once, FETCH_PARALLEL at a time.
 *
 * A fetch is READY (to be sent), WAITING (for its next try), RUNNING (a call is open) or DONE.
 * A try that brought new bytes does not count, up to FETCH_TRIES_ALL in all.
 */
#ifndef KOSA8_IMAGE_REGISTRY_FETCH_H
#define KOSA8_IMAGE_REGISTRY_FETCH_H

#include "auth.h"
#include "http.h"
#include "../output.h"

#define FETCH_PARALLEL 3
#define FETCH_TRIES 3
#define FETCH_TRIES_ALL 10
#define FETCH_RETRY_AFTER_MAX_S 60

/* Where a body goes. Functions return 0, or a negative errno with *e set; -EAGAIN means that the
 * whole may be fetched again. */
struct sink {
	/* From where the body is wanted: bytes before that are there already. */
	uint64_t (*offset)(struct sink *s);
	/* A body begins at this offset: 0 (what was there is dropped) or that of offset(). length:
	 * what is announced to follow, or -1. */
	int (*begin)(struct sink *s, uint64_t offset, int64_t length, struct err *e);
	int (*data)(struct sink *s, const void *data, size_t len, struct err *e);
	/* The body has ended: is it all, and what was asked for? */
	int (*end)(struct sink *s, struct err *e);
	/* The whole size when it is known, else 0. */
	uint64_t (*size)(struct sink *s);
};

enum fetch_state { FETCH_READY, FETCH_WAITING, FETCH_RUNNING, FETCH_DONE };

struct fetch {
	/* Set by the caller, the rest zeroed. */
	const char *url;
	const char *accept;
	const char *form; /* POSTed (http.h), or NULL */
	const char *what; /* "layer sha256:...": for messages */
	struct sink *sink;
	const char *document; /* "manifest": refused when it comes compressed; NULL: as it comes */
	bool head;	      /* HEAD: the sink gets no data */
	bool once;	      /* no other try when nobody answers */

	/* The last answer's Content-Type and Docker-Content-Digest. */
	char content_type[128];
	char digest[96];

	/* fetch.c's own */
	enum fetch_state state;
	int64_t due_ms;
	unsigned tries, tries_all, logins;
	unsigned generation; /* of the authorization that the call carried */
	uint64_t started_at; /* the sink's offset when the call was sent */
	char *authorization;
	struct http_call call;
	struct fetcher *fetcher;
};

struct fetcher {
	struct http *http;
	struct http *token_http; /* apart: it is waited for while other calls are open */
	struct auth *auth;	 /* NULL: no authorization at all */
	struct auth *secrets;	 /* what no message may quote, and whose login a refusal is about */
	const char *host;	 /* for messages */
	const char *scope;	 /* of a token: "repository:NAME:pull" */
	unsigned tries;		 /* FETCH_TRIES, or fewer where another host can be asked */
	long status;		 /* of the last answer; 0: none */
	uint64_t retry_ms;
	struct output *output; /* for notices; the work ends when it has failed. NULL: none */
};

int fetcher_init(struct fetcher *f, struct auth *auth, const char *host, const char *scope,
	struct err *e) must_check;
void fetcher_release(struct fetcher *f);

/* Until all are done; the first failure ends the others. */
int fetch_run(struct fetcher *f, struct fetch *fetches, size_t n, struct err *e) must_check;

#endif
