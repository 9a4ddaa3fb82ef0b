/* SPDX-License-Identifier: Apache-2.0 */
#include "endpoint.h"

#include "../../base/strv.h"
#include "../../proto/reference.h"

#include <stdio.h>
#include <string.h>

#define PROBE_MS 5000

static const char *host_of(const char *registry)
{
	return strcmp(registry, "docker.io") == 0 ? "registry-1.docker.io" : registry;
}

/* Whether something that speaks HTTP is there. A TLS server answers a plain request with an alert,
 * with nothing, or with 400. */
static bool answers(const char *base)
{
	cleanup_http struct http *h = NULL;
	struct http_call call = {0};
	cleanup_str char *url = NULL;
	struct err ignored;
	bool ok = false;

	if (http_new(&h, &ignored) < 0)
		return false;
	if (asprintf(&url, "%s/v2/", base) < 0) {
		url = NULL;
		return false;
	}
	call.url = url;
	if (http_start(h, &call, &ignored) < 0)
		return true; /* its certificates cannot be used: the real request will say so */
	if (http_wait(h, PROBE_MS) == &call) /* failed: an untrusted certificate, so TLS it is */
		ok = call.result == HTTP_FAILED ||
		     (call.answer.status > 0 && call.answer.status != 400);
	http_call_release(h, &call);
	return ok;
}

static int choose_base(struct endpoint *p, const char *registry, bool plain_http, struct err *e)
{
	char origin[HTTP_ORIGIN_MAX];
	const char *host = host_of(registry);

	(void)snprintf(p->host, sizeof(p->host), "%s", host);
	int n = snprintf(p->base, sizeof(p->base), "http%s://%s", plain_http ? "" : "s", host);
	if (n < 0 || (size_t)n >= sizeof(p->base) || http_origin(p->base, origin, e) < 0)
		return err_set(e, ERR_INVALID, 0, "%s: the registry's name is not a valid address",
			registry);
	if (plain_http || !http_origin_is_loopback(origin))
		return 0;
	(void)snprintf(p->base, sizeof(p->base), "http://%.290s", host);
	p->undecided = true;
	return 0;
}

void endpoint_decide(struct endpoint *p)
{
	char https[MIRROR_URL_SIZE];

	if (!p->undecided)
		return;
	p->undecided = false;
	(void)snprintf(https, sizeof(https), "https://%.290s", p->host);
	if (!answers(p->base) && answers(https))
		(void)snprintf(p->base, sizeof(p->base), "%s", https);
}

static int open_chosen(struct endpoint *p, struct auth *auth, const char *scope,
	struct output *output, struct err *e)
{
	p->auth = auth;
	int r = fetcher_init(&p->fetcher, auth, p->host, scope, e);
	if (r == 0)
		p->fetcher.output = output;
	return r;
}

int endpoint_open(struct endpoint *p, const char *registry, bool plain_http, struct auth *auth,
	const char *scope, struct output *output, struct err *e)
{
	*p = (struct endpoint){0};
	int r = choose_base(p, registry, plain_http, e);
	return r < 0 ? r : open_chosen(p, auth, scope, output, e);
}

static void mirror_host(const char *url, char ret[static HTTP_ORIGIN_MAX])
{
	const char *host = strstr(url, "://");

	host = host ? host + 3 : url;
	(void)snprintf(ret, HTTP_ORIGIN_MAX, "%.*s", (int)strcspn(host, "/"), host);
}

void endpoint_mirror_account(const char *url, char ret[static HTTP_ORIGIN_MAX])
{
	char host[HTTP_ORIGIN_MAX], name[REFERENCE_NAME_MAX + 1];

	mirror_host(url, host);
	bool valid = reference_registry(host, strlen(host), name) == 0;
	(void)snprintf(ret, HTTP_ORIGIN_MAX, "%s", valid ? name : host);
}

int endpoint_open_mirror(struct endpoint *p, const char *url, struct auth *auth, const char *scope,
	struct output *output, struct err *e)
{
	*p = (struct endpoint){0};
	(void)snprintf(p->base, sizeof(p->base), "%s", url);
	mirror_host(url, p->host);
	return open_chosen(p, auth, scope, output, e);
}

void endpoint_release(struct endpoint *p)
{
	fetcher_release(&p->fetcher);
}
