/* SPDX-License-Identifier: Apache-2.0 */
#include "registry.h"

#include "memory.h"

#include "../base/hash.h"
#include "../base/log.h"
#include "../base/strv.h"
#include "../base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_MS 5000

static const char *host_of(const struct reference *ref)
{
	return strcmp(ref->registry, "docker.io") == 0 ? "registry-1.docker.io" : ref->registry;
}

/* KOSA8_REGISTRY_MIRROR is REGISTRY=URL,...: copies the URL for this registry, if there is one. It
 * is another host to us: it gets the credentials for its own name, not those for the registry. */
static bool find_mirror(const char *registry, char *ret, size_t size)
{
	const char *list = getenv("KOSA8_REGISTRY_MIRROR");
	size_t len = strlen(registry);

	for (const char *p = list; p && *p;) {
		size_t n = strcspn(p, ",");
		if (n > len && strncmp(p, registry, len) == 0 && p[len] == '=') {
			while (n > len + 1 && p[n - 1] == '/')
				n--;
			int used = snprintf(ret, size, "%.*s", (int)(n - len - 1), p + len + 1);
			return used > 0 && (size_t)used < size;
		}
		p += n + (p[n] == ',');
	}
	return false;
}

/* Whether something that speaks HTTP is there. A TLS server answers a plain request with an alert,
 * with nothing, or with 400. */
static bool answers(const char *base, struct err *e)
{
	cleanup_http struct http *h = NULL;
	struct http_call call = {0};
	cleanup_str char *url = NULL;
	bool ok = false;

	if (http_new(&h, e) < 0)
		return false;
	if (asprintf(&url, "%s/v2/", base) < 0) {
		url = NULL;
		return false;
	}
	call.url = url;
	if (http_start(h, &call, e) < 0)
		return false;
	if (http_wait(h, PROBE_MS) == &call) /* failed: an untrusted certificate, so TLS it is */
		ok = call.result == HTTP_FAILED ||
		     (call.answer.status > 0 && call.answer.status != 400);
	http_call_release(h, &call);
	return ok;
}

static int use_mirror(struct registry *r, struct err *e)
{
	char origin[HTTP_ORIGIN_MAX];

	if (http_origin(r->base, origin, e) < 0)
		return err_set(e, ERR_INVALID, 0,
			"KOSA8_REGISTRY_MIRROR: not http://HOST or https://HOST for %s",
			r->ref.registry);
	(void)snprintf(r->host, sizeof(r->host), "%s", strstr(r->base, "://") + 3);
	return 0;
}

static int choose_base(struct registry *r, bool plain_http, struct err *e)
{
	char origin[HTTP_ORIGIN_MAX];

	if (find_mirror(r->ref.registry, r->base, sizeof(r->base)))
		return use_mirror(r, e);
	(void)snprintf(r->host, sizeof(r->host), "%s", host_of(&r->ref));
	int n = snprintf(
		r->base, sizeof(r->base), "http%s://%s", plain_http ? "" : "s", host_of(&r->ref));
	if (n < 0 || (size_t)n >= sizeof(r->base) || http_origin(r->base, origin, e) < 0)
		return err_set(e, ERR_INVALID, 0, "%s: the registry's name is not a valid address",
			r->name);
	if (plain_http || !http_origin_is_loopback(origin))
		return 0;
	(void)snprintf(r->base, sizeof(r->base), "http://%s", host_of(&r->ref));
	r->undecided = true;
	return 0;
}

/* TLS or not, of a registry on loopback that did not answer a first request as HTTP. */
static void decide(struct registry *r)
{
	char https[HTTP_ORIGIN_MAX];
	struct err ignored;

	if (!r->undecided)
		return;
	r->undecided = false;
	int n = snprintf(https, sizeof(https), "https://%s", host_of(&r->ref));
	if (n > 0 && (size_t)n < sizeof(https) && !answers(r->base, &ignored) &&
		answers(https, &ignored))
		(void)snprintf(r->base, sizeof(r->base), "%s", https);
}

static int get_document(struct documents *d, const struct descriptor *descriptor, bool is_config,
	struct buf *ret, struct err *e);

int registry_open(struct registry *r, const struct reference *ref, bool plain_http,
	struct output *output, struct err *e)
{
	int x;

	*r = (struct registry){.documents = {get_document}, .ref = *ref};
	reference_canonical(ref, r->name);
	(void)snprintf(r->scope, sizeof(r->scope), "repository:%s:pull", ref->repository);
	if ((x = choose_base(r, plain_http, e)) < 0)
		return x;
	const char *name = strcmp(r->host, host_of(ref)) == 0 ? ref->registry : r->host;
	if ((x = auth_load(name, &r->auth, e)) < 0)
		return x;
	if ((x = fetcher_init(&r->fetcher, &r->auth, r->host, r->scope, e)) < 0) {
		auth_release(&r->auth);
		return x;
	}
	r->fetcher.output = output;
	return 0;
}

void registry_release(struct registry *r)
{
	fetcher_release(&r->fetcher);
	auth_release(&r->auth);
}

static char *resource(const struct registry *r, const char *kind, const char *name)
{
	char *url = NULL;

	if (asprintf(&url, "%s/v2/%s/%s/%s", r->base, r->ref.repository, kind, name) < 0)
		return NULL;
	return url;
}

static int get_from_base(
	struct registry *r, const char *kind, const char *name, struct fetch *f, struct err *e)
{
	cleanup_str char *url = resource(r, kind, name);

	if (!url)
		return err_errno(e, ENOMEM, "%s", f->what);
	f->url = url;
	int x = fetch_run(&r->fetcher, f, 1, e);
	f->url = NULL;
	return x;
}

/* f: accept, what, sink, head. A first request to a registry on loopback is tried once as plain
 * HTTP, so that there is none to find out only. */
static int get(
	struct registry *r, const char *kind, const char *name, struct fetch *f, struct err *e)
{
	struct fetch first = *f;

	if (!r->undecided)
		return get_from_base(r, kind, name, f, e);
	first.once = true;
	int x = get_from_base(r, kind, name, &first, e);
	if (first.status > 0 && first.status != 400)
		r->undecided = false;
	if (x == 0 || (!r->undecided && e->kind != ERR_UNAVAILABLE && e->kind != ERR_TIMEOUT)) {
		*f = first;
		return x;
	}
	decide(r);
	return get_from_base(r, kind, name, f, e);
}

static int get_document(struct documents *d, const struct descriptor *descriptor, bool is_config,
	struct buf *ret, struct err *e)
{
	struct registry *r = (struct registry *)d;
	cleanup_memory struct memory m = {0};
	char what[120];
	struct fetch f = {
		.accept = is_config ? NULL : MANIFEST_ACCEPT, .what = what, .sink = &m.sink};

	(void)snprintf(what, sizeof(what), "%s %s", is_config ? "configuration" : "manifest",
		descriptor->digest);
	memory_init(&m, what, descriptor->size, descriptor->digest,
		is_config ? CONFIG_BYTES_MAX : MANIFEST_BYTES_MAX);
	int x = get(r, is_config ? "blobs" : "manifests", descriptor->digest, &f, e);
	if (x < 0)
		return err_wrap(e, "%s", r->name);
	*ret = m.body;
	m.body = (struct buf){0};
	return 0;
}

int registry_root(struct registry *r, struct buf *ret, char digest[static REFERENCE_DIGEST_SIZE],
	char type[static MANIFEST_TYPE_SIZE], struct err *e)
{
	bool by_digest = r->ref.digest[0] != '\0';
	cleanup_memory struct memory m = {0};
	struct fetch f = {.accept = MANIFEST_ACCEPT, .what = r->name, .sink = &m.sink};
	char hex[SHA256_HEX_SIZE];

	memory_init(&m, r->name, 0, by_digest ? r->ref.digest : NULL, MANIFEST_BYTES_MAX);
	int x = get(r, "manifests", by_digest ? r->ref.digest : r->ref.tag, &f, e);
	if (x < 0) {
		if (e->kind == ERR_NOT_FOUND)
			(void)err_hint(e, "check the name and the tag");
		return x;
	}
	sha256_hex_of(m.body.data, m.body.len, hex);
	(void)snprintf(digest, REFERENCE_DIGEST_SIZE, "sha256:%s", hex);
	(void)snprintf(type, MANIFEST_TYPE_SIZE, "%.127s", f.content_type);
	*ret = m.body;
	m.body = (struct buf){0};
	return 0;
}

int registry_head(struct registry *r, char digest[static REFERENCE_DIGEST_SIZE], struct err *e)
{
	cleanup_memory struct memory none = {0};
	struct fetch f = {
		.accept = MANIFEST_ACCEPT, .what = r->name, .sink = &none.sink, .head = true};

	memory_init(&none, r->name, 0, NULL, MANIFEST_BYTES_MAX);
	int x = get(r, "manifests", r->ref.tag, &f, e);
	if (x < 0)
		return x;
	if (!reference_is_digest(f.digest))
		return err_set(e, ERR_NOT_FOUND, 0, "%s: no digest", r->name);
	(void)snprintf(digest, REFERENCE_DIGEST_SIZE, "%.71s", f.digest);
	return 0;
}

int registry_fetch_blobs(struct registry *r, struct blob *blobs, size_t n, struct err *e)
{
	struct fetch *fetches = calloc(n ? n : 1, sizeof(*fetches));
	cleanup_strv char **urls = strv_new();
	size_t wanted = 0;
	int x = fetches && urls ? 0 : -ENOMEM;

	decide(r);
	for (size_t i = 0; i < n && x == 0; i++) {
		if (blobs[i].state != BLOB_OURS && blobs[i].state != BLOB_PRIVATE)
			continue;
		cleanup_str char *url = resource(r, "blobs", blobs[i].descriptor.digest);
		x = url ? strv_add(&urls, url) : -ENOMEM;
		fetches[wanted++] = (struct fetch){.what = blobs[i].what, .sink = &blobs[i].sink};
	}
	for (size_t i = 0; i < wanted && x == 0; i++)
		fetches[i].url = urls[i];
	if (x < 0)
		x = err_errno(e, ENOMEM, "%s", r->name);
	else if ((x = fetch_run(&r->fetcher, fetches, wanted, e)) < 0)
		x = err_wrap(e, "%s", r->name);
	free(fetches);
	return x;
}
