/* SPDX-License-Identifier: Apache-2.0 */
#include "origin.h"

#include "../../base/text.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool fill_origin(CURLU *u, char *ret)
{
	char *scheme = NULL, *host = NULL, *port = NULL;
	bool ok = false;

	if (curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
		curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
		curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK) {
		int n = snprintf(ret, HTTP_ORIGIN_MAX, "%s://%s:%s", scheme, host, port);
		ok = n > 0 && n < HTTP_ORIGIN_MAX &&
		     (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
	}
	curl_free(scheme);
	curl_free(host);
	curl_free(port);
	if (ok)
		for (char *p = ret; *p; p++)
			*p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
	return ok;
}

int http_origin(const char *url, char ret[static HTTP_ORIGIN_MAX], struct err *e)
{
	CURLU *u = curl_url();
	bool ok = u && strlen(url) < HTTP_URL_MAX &&
		  curl_url_set(u, CURLUPART_URL, url, CURLU_DISALLOW_USER) == CURLUE_OK &&
		  fill_origin(u, ret);

	curl_url_cleanup(u);
	if (!ok)
		return err_set(e, ERR_PROTOCOL, 0, "an address that is not http:// or https://");
	return 0;
}

bool http_origin_is_loopback(const char *origin)
{
	const char *host = strstr(origin, "://");
	unsigned a, b, c, d;
	int used = 0;

	if (!host)
		return false;
	host += 3;
	if (text_starts_with(host, "localhost:") || text_starts_with(host, "[::1]:"))
		return true;
	return sscanf(host, "%3u.%3u.%3u.%3u%n", &a, &b, &c, &d, &used) == 4 && a == 127 &&
	       host[used] == ':';
}

char *http_escape(const char *s)
{
	char *escaped = curl_easy_escape(NULL, s, (int)strlen(s));
	char *copy = escaped ? strdup(escaped) : NULL;

	curl_free(escaped);
	return copy;
}
