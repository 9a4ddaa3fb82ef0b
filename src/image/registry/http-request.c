/* SPDX-License-Identifier: Apache-2.0 */
#include "http-internal.h"

#include "certs.h"
#include "secret.h"

#include "../../base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set_authorities(CURL *easy)
{
	const char *file = getenv("SSL_CERT_FILE"), *dir = getenv("SSL_CERT_DIR");

	if (file && *file) {
		(void)curl_easy_setopt(easy, CURLOPT_CAINFO, file);
		(void)curl_easy_setopt(easy, CURLOPT_PROXY_CAINFO, file);
	}
	if (dir && *dir) {
		(void)curl_easy_setopt(easy, CURLOPT_CAPATH, dir);
		(void)curl_easy_setopt(easy, CURLOPT_PROXY_CAPATH, dir);
	}
}

static int set_blob(CURL *easy, CURLoption option, const struct buf *b)
{
	struct curl_blob blob = {.data = b->data, .len = b->len, .flags = CURL_BLOB_COPY};

	return curl_easy_setopt(easy, option, b->len > 0 ? &blob : NULL) == CURLE_OK ? 0 : -ENOMEM;
}

/* The certificates of the host that is asked now, and no longer those of one before. */
static int set_certificates(struct http_transfer *t, struct err *e)
{
	cleanup_certs struct certs certs = {0};
	int r = certs_load(t->current, &certs, e);

	if (r < 0)
		return r;
	if (set_blob(t->easy, CURLOPT_CAINFO_BLOB, &certs.authorities) < 0 ||
		set_blob(t->easy, CURLOPT_SSLCERT_BLOB, &certs.certificate) < 0 ||
		set_blob(t->easy, CURLOPT_SSLKEY_BLOB, &certs.key) < 0)
		return err_errno(e, ENOMEM, "cannot send a request to %s", t->current);
	return 0;
}

void http_request_release(struct http_transfer *t)
{
	for (struct curl_slist *l = t->headers; l; l = l->next)
		explicit_bzero(l->data, strlen(l->data));
	curl_slist_free_all(t->headers);
	t->headers = NULL;
}

static int add_header(struct curl_slist **list, const char *name, const char *value)
{
	char *line = NULL;

	if (asprintf(&line, "%s: %s", name, value) < 0)
		return -ENOMEM;
	struct curl_slist *longer = curl_slist_append(*list, line);
	secret_freep(&line);
	if (!longer)
		return -ENOMEM;
	*list = longer;
	return 0;
}

/* "": none, NULL: what libcurl finds. It takes no HTTP_PROXY, which in a CGI program is what a
 * client sent; elsewhere it is as good as http_proxy. */
static const char *proxy_for(const char *origin)
{
	const char *given = getenv("HTTP_PROXY"), *lower = getenv("http_proxy");

	if (http_origin_is_loopback(origin))
		return "";
	if (text_starts_with(origin, "http:") && !lower && given && !getenv("REQUEST_METHOD"))
		return given;
	return NULL;
}

void http_request_init(struct http_call *c, long connect_ms)
{
	CURL *easy = c->transfer->easy;

	(void)curl_easy_setopt(easy, CURLOPT_PRIVATE, (void *)c);
	(void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(easy, CURLOPT_NOBODY, c->head ? 1L : 0L);
	(void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	(void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	(void)curl_easy_setopt(easy, CURLOPT_USERAGENT, "kosa8/" KOSA8_VERSION);
	(void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, connect_ms);
	(void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, c->transfer->text);
	(void)curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	(void)curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L * 1024);
	/* A proxy gets none of the headers that are for the server behind its tunnel. */
	(void)curl_easy_setopt(easy, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);
	if (c->form) {
		(void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)strlen(c->form));
		(void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, c->form);
	}
	set_authorities(easy);
}

int http_request_prepare(struct http_call *c, struct err *e)
{
	struct http_transfer *t = c->transfer;
	char range[32];
	int r = 0;

	if ((r = http_origin(t->url, t->current, e)) < 0 || (r = set_certificates(t, e)) < 0)
		return r;
	http_request_release(t);
	if (c->accept)
		r = add_header(&t->headers, "Accept", c->accept);
	if (r == 0 && c->authorization && strcmp(t->origin, t->current) == 0)
		r = add_header(&t->headers, "Authorization", c->authorization);
	if (c->range_from > 0) {
		(void)snprintf(range, sizeof(range), "%llu-", (unsigned long long)c->range_from);
		if (curl_easy_setopt(t->easy, CURLOPT_RANGE, range) != CURLE_OK)
			r = -ENOMEM;
	}
	(void)curl_easy_setopt(t->easy, CURLOPT_PROXY, proxy_for(t->current));
	(void)curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
	if (r < 0 || curl_easy_setopt(t->easy, CURLOPT_URL, t->url) != CURLE_OK)
		return err_errno(e, ENOMEM, "cannot send a request to %s", t->current);
	return 0;
}
