/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl does not tell which proxy it takes: its rules again, for messages alone. */
#include "http-internal.h"

#include "../../base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *take(const char *name, const char **ret_variable)
{
	const char *value = getenv(name);

	if (!value || !*value)
		return NULL;
	*ret_variable = name;
	return value;
}

static const char *find(bool tls, const char **ret_variable)
{
	const char *value = take(tls ? "https_proxy" : "http_proxy", ret_variable);

	if (!value && (tls || !getenv("REQUEST_METHOD")))
		value = take(tls ? "HTTPS_PROXY" : "HTTP_PROXY", ret_variable);
	if (!value)
		value = take("all_proxy", ret_variable);
	return value ? value : take("ALL_PROXY", ret_variable);
}

/* Whether the host is one of the list's names, or below one. */
static bool is_listed(const char *list, const char *host, size_t len)
{
	if (strcmp(list, "*") == 0)
		return true;
	for (const char *p = list + strspn(list, ", "); *p; p += strspn(p, ", ")) {
		const char *name = p + (*p == '.');
		size_t n = strcspn(name, ", ");
		if (n > 0 && n <= len && strncasecmp(host + len - n, name, n) == 0 &&
			(n == len || host[len - n - 1] == '.'))
			return true;
		p = name + n;
	}
	return false;
}

/* HOST:PORT, or "" where that cannot be read. */
static void read_address(const char *value, char *ret, size_t size)
{
	CURLU *u = curl_url();
	char *host = NULL, *port = NULL;

	*ret = '\0';
	if (u &&
		curl_url_set(u, CURLUPART_URL, value,
			CURLU_NON_SUPPORT_SCHEME | CURLU_GUESS_SCHEME) == CURLUE_OK &&
		curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK) {
		if (curl_url_get(u, CURLUPART_PORT, &port, 0) != CURLUE_OK)
			port = NULL;
		const char *fallback = text_starts_with(value, "https:") ? "443" : "1080";
		char raw[HTTP_ORIGIN_MAX];
		(void)snprintf(raw, sizeof(raw), "%.200s:%.5s", host, port ? port : fallback);
		text_escape(raw, ret, size);
	}
	curl_free(host);
	curl_free(port);
	curl_url_cleanup(u);
}

bool http_proxy_find(const char *origin, struct http_proxy *ret)
{
	bool tls = text_starts_with(origin, "https:");
	const char *value = find(tls, &ret->variable);
	const char *host = strstr(origin, "://"), *port = strrchr(origin, ':');
	const char *list = getenv("no_proxy");

	if (!value || !host || http_origin_is_loopback(origin))
		return false;
	if (!list || !*list)
		list = getenv("NO_PROXY");
	if (list && port > host && is_listed(list, host + 3, (size_t)(port - host - 3)))
		return false;
	read_address(value, ret->host, sizeof(ret->host));
	return true;
}
