/* SPDX-License-Identifier: Apache-2.0 */
#include "http-internal.h"

#include "../../base/text.h"

#include <stdio.h>
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
static bool is_proxy_fault(const struct http_transfer *t, CURLcode code, const char *text)
{
	struct http_proxy proxy;

	return (code == CURLE_COULDNT_CONNECT && http_proxy_find(t->current, &proxy)) ||
	       code == CURLE_COULDNT_RESOLVE_PROXY || code == CURLE_PROXY ||
	       strstr(text, "nsupported proxy") || strchr(text, '@');
}

/* Codes differ between versions: 100 is CURLE_TOO_LARGE of 8.6. */
static bool is_header_too_large(CURLcode code, const char *text)
{
	return code == CURLE_OUT_OF_MEMORY || (int)code == 100 ||
	       strstr(text, "Too large response headers");
}

static void fail_proxy(struct http_call *c, CURLcode code)
{
	struct http_proxy proxy;
	bool found = http_proxy_find(c->transfer->current, &proxy);
	bool away = code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_PROXY;

	c->result = HTTP_BROKEN;
	(void)err_set(&c->err, ERR_UNAVAILABLE, 0, "no way to %s: the proxy%s%.200s%s%s%s %s (%s)",
		c->transfer->current, found && proxy.host[0] ? " " : "", found ? proxy.host : "",
		found ? " (" : "", found ? proxy.variable : "", found ? ")" : "",
		away ? "cannot be reached" : "cannot be used", curl_easy_strerror(code));
	(void)err_hint(&c->err, "check %s and no_proxy",
		found ? proxy.variable : "http_proxy, https_proxy, all_proxy");
}

static void fail_connection(struct http_call *c, CURLcode code, const char *text)
{
	const char *host = c->transfer->current;
	char by[HTTP_ORIGIN_MAX + 60] = "";
	struct http_proxy proxy;

	c->result = HTTP_BROKEN;
	if (http_proxy_find(host, &proxy))
		(void)snprintf(
			by, sizeof(by), " by the proxy %.200s (%s)", proxy.host, proxy.variable);
	if (code == CURLE_OPERATION_TIMEDOUT)
		(void)err_set(&c->err, ERR_TIMEOUT, 0, "cannot connect to %s%s in time: %.150s",
			host, by, text);
	else
		(void)err_set(
			&c->err, ERR_UNAVAILABLE, 0, "no answer from %s%s: %.150s", host, by, text);
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
	if (is_header_too_large(code, text)) {
		c->result = HTTP_FAILED;
		(void)err_set(&c->err, ERR_PROTOCOL, 0,
			"%s sent a response header that is too large", t->current);
	} else if (is_proxy_fault(t, code, text)) {
		fail_proxy(c, code);
	} else if (code == CURLE_PARTIAL_FILE) {
		c->result = HTTP_BROKEN;
		(void)err_set(&c->err, ERR_UNAVAILABLE, 0, "%s ended its answer early", t->current);
	} else {
		fail_connection(c, code, text);
	}
}
