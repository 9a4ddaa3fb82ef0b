/* SPDX-License-Identifier: Apache-2.0 */
#include "http-internal.h"

#include "../../base/text.h"

#include <string.h>

static bool is_certificate_fault(CURLcode code)
{
	return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
	       code == CURLE_SSL_ISSUER_ERROR || code == CURLE_SSL_INVALIDCERTSTATUS;
}

void http_proxy_wants_credentials(struct http_call *c)
{
	c->result = HTTP_FAILED;
	(void)err_set(&c->err, ERR_DENIED, 0,
		"%s: the proxy on the way wants other credentials (407)", c->transfer->current);
	(void)err_hint(&c->err, "put them into the proxy's address, as in "
				"https_proxy=http://USER:PASSWORD@HOST:PORT");
}

/* A proxy did not make the tunnel that was asked for. */
static void fail_tunnel(struct http_call *c, long status)
{
	if (status == 407) {
		http_proxy_wants_credentials(c);
		return;
	}
	c->result = status >= 500 ? HTTP_BROKEN : HTTP_FAILED;
	(void)err_set(&c->err, status >= 500 ? ERR_UNAVAILABLE : ERR_DENIED, 0,
		"no way to %s: the proxy answers %ld", c->transfer->current, status);
	(void)err_hint(&c->err, "check https_proxy and no_proxy");
}

static void fail_certificate(struct http_call *c, const char *text)
{
	c->result = HTTP_FAILED;
	(void)err_set(&c->err, ERR_UNAVAILABLE, 0, "%s cannot be trusted: %.200s",
		c->transfer->current, text);
	(void)err_hint(&c->err, "SSL_CERT_FILE=FILE with the authority that signed it");
}

/* What libcurl says of a proxy's address that it cannot use holds the password. */
static bool is_proxy_fault(CURLcode code, const char *text)
{
	return code == CURLE_COULDNT_RESOLVE_PROXY || code == CURLE_PROXY ||
	       strstr(text, "nsupported proxy") || strchr(text, '@');
}

void http_fault(struct http_call *c, CURLcode code)
{
	struct http_transfer *t = c->transfer;
	char text[CURL_ERROR_SIZE];
	long connect_status = 0;

	(void)curl_easy_getinfo(t->easy, CURLINFO_HTTP_CONNECTCODE, &connect_status);
	if (connect_status >= 300) {
		fail_tunnel(c, connect_status);
		return;
	}
	text_escape(t->text[0] ? t->text : curl_easy_strerror(code), text, sizeof(text));
	if (is_certificate_fault(code)) {
		fail_certificate(c, text);
		return;
	}
	c->result = HTTP_BROKEN;
	if (is_proxy_fault(code, text)) {
		(void)err_set(&c->err, ERR_UNAVAILABLE, 0,
			"no way to %s: the proxy cannot be used (%s)", t->current,
			curl_easy_strerror(code));
		(void)err_hint(&c->err, "check http_proxy, https_proxy, all_proxy and no_proxy");
	} else if (code == CURLE_PARTIAL_FILE) {
		(void)err_set(&c->err, ERR_UNAVAILABLE, 0, "%s ended its answer early", t->current);
	} else if (code == CURLE_OPERATION_TIMEDOUT) {
		(void)err_set(&c->err, ERR_TIMEOUT, 0, "cannot connect to %s in time: %.200s",
			t->current, text);
	} else {
		(void)err_set(
			&c->err, ERR_UNAVAILABLE, 0, "no answer from %s: %.200s", t->current, text);
	}
}
