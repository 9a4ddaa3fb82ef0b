/* SPDX-License-Identifier: Apache-2.0 */
#include "registry.h"

#include "memory.h"

#include "../../base/hash.h"
#include "../../base/strv.h"
#include "../../base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int get_document(struct documents *d, const struct descriptor *descriptor, bool is_config,
	struct buf *ret, struct err *e);

static int open_next_mirror(struct registry *r, struct err *e)
{
	size_t i = r->next_mirror++;
	int x = endpoint_open_mirror(
		&r->endpoint, r->mirrors.urls[i], &r->accounts[i], r->scope, r->output, e);

	if (x == 0 && r->next_mirror < r->mirrors.len)
		r->endpoint.fetcher.tries = 1;
	return x;
}

int registry_init(struct registry *r, const struct reference *ref, bool plain_http,
	struct output *output, struct err *e)
{
	char account[HTTP_ORIGIN_MAX];
	int x;

	*r = (struct registry){.documents = {get_document},
		.ref = *ref,
		.plain_http = plain_http,
		.output = output};
	reference_canonical(ref, r->name);
	(void)snprintf(r->scope, sizeof(r->scope), "repository:%s:pull", ref->repository);
	x = mirrors_parse(getenv("KOSA8_REGISTRY_MIRROR"), ref->registry, &r->mirrors, e);
	if (x < 0)
		return x;
	for (size_t i = 0; i < r->mirrors.len; i++) {
		endpoint_mirror_account(r->mirrors.urls[i], account);
		auth_init(&r->accounts[r->accounts_len++], account);
	}
	if (r->mirrors.len == 0)
		auth_init(&r->accounts[r->accounts_len++], ref->registry);
	return 0;
}

int registry_look_up(struct registry *r, bool ask_helpers)
{
	int x = 0;

	for (size_t i = 0; x == 0 && i < r->accounts_len; i++)
		x = auth_look_up(&r->accounts[i], ask_helpers);
	return x;
}

int registry_open(struct registry *r, struct err *e)
{
	return r->mirrors.len > 0 ? open_next_mirror(r, e)
				  : endpoint_open(&r->endpoint, r->ref.registry, r->plain_http,
					    &r->accounts[0], r->scope, r->output, e);
}

void registry_release(struct registry *r)
{
	endpoint_release(&r->endpoint);
	while (r->accounts_len > 0)
		auth_release(&r->accounts[--r->accounts_len]);
}

static bool another_may_have_it(const struct err *e)
{
	return e->kind == ERR_UNAVAILABLE || e->kind == ERR_TIMEOUT || e->kind == ERR_NOT_FOUND ||
	       e->kind == ERR_DENIED;
}

static void note_tried(struct registry *r, const struct err *e)
{
	size_t len = strlen(r->tried);
	long status = r->endpoint.fetcher.status;
	char why[24];

	(void)snprintf(why, sizeof(why), "%ld", status);
	(void)snprintf(r->tried + len, sizeof(r->tried) - len, "%s%.60s (%s)", len ? ", " : "",
		r->endpoint.host,
		status > 200		 ? why
		: e->kind == ERR_TIMEOUT ? "too slow"
					 : "no answer");
}

/* What was asked for failed: 0 when it is to be asked for again, of the next mirror. Else the
 * error, which names all that were asked. */
static int next_mirror(struct registry *r, struct err *e)
{
	struct err failed = *e;

	if (!another_may_have_it(e))
		return err_code(e);
	note_tried(r, e);
	if (r->next_mirror < r->mirrors.len) {
		endpoint_release(&r->endpoint);
		int x = open_next_mirror(r, e);
		if (x == 0)
			output_notice(
				r->output, "%s; %s is asked next", failed.what, r->endpoint.host);
		return x;
	}
	if (r->mirrors.len > 1) {
		(void)err_set(e, failed.kind, failed.errnum,
			"%.120s: no mirror of %.60s gives it: %s", r->name, r->ref.registry,
			r->tried);
		return err_hint(e, "KOSA8_REGISTRY_MIRROR names them");
	}
	return err_code(e);
}

static char *resource(const struct registry *r, const char *kind, const char *name)
{
	char *url = NULL;

	if (asprintf(&url, "%s/v2/%s/%s/%s", r->endpoint.base, r->ref.repository, kind, name) < 0)
		return NULL;
	return url;
}

static int get_once(
	struct registry *r, const char *kind, const char *name, struct fetch *f, struct err *e)
{
	cleanup_str char *url = resource(r, kind, name);

	if (!url)
		return err_errno(e, ENOMEM, "%s", f->what);
	f->url = url;
	int x = fetch_run(&r->endpoint.fetcher, f, 1, e);
	f->url = NULL;
	return x;
}

/* A first request to a registry on loopback is tried once as plain HTTP, so that there is none to
 * find out only. */
static int get_from_endpoint(
	struct registry *r, const char *kind, const char *name, struct fetch *f, struct err *e)
{
	struct endpoint *p = &r->endpoint;
	struct fetch first = *f;

	if (!p->undecided)
		return get_once(r, kind, name, f, e);
	first.once = true;
	int x = get_once(r, kind, name, &first, e);
	if (p->fetcher.status > 0 && p->fetcher.status != 400)
		p->undecided = false;
	if (x == 0 || !p->undecided) {
		*f = first;
		return x;
	}
	endpoint_decide(p);
	return get_once(r, kind, name, f, e);
}

/* f: accept, what, sink, head. */
static int get(
	struct registry *r, const char *kind, const char *name, struct fetch *f, struct err *e)
{
	for (;;) {
		struct fetch one = *f;
		int x = get_from_endpoint(r, kind, name, &one, e);
		if (x == 0) {
			*f = one;
			return 0;
		}
		if ((x = next_mirror(r, e)) < 0)
			return x;
	}
}

static int get_document(struct documents *d, const struct descriptor *descriptor, bool is_config,
	struct buf *ret, struct err *e)
{
	struct registry *r = (struct registry *)d;
	cleanup_memory struct memory m = {0};
	char what[120];
	struct fetch f = {.accept = is_config ? NULL : MANIFEST_ACCEPT,
		.what = what,
		.document = is_config ? "configuration" : "manifest",
		.sink = &m.sink};

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
	struct fetch f = {.accept = MANIFEST_ACCEPT,
		.what = r->name,
		.document = "manifest",
		.sink = &m.sink};
	char hex[SHA256_HEX_SIZE];

	memory_init(&m, r->name, 0, by_digest ? r->ref.digest : NULL, MANIFEST_BYTES_MAX);
	int x = get(r, "manifests", by_digest ? r->ref.digest : r->ref.tag, &f, e);
	if (x < 0) {
		if (e->kind == ERR_NOT_FOUND)
			(void)err_hint(e, "check the name and the tag");
		return x;
	}
	if (m.body.len == 0)
		return err_set(e, ERR_PROTOCOL, 0, "%s: %s sent an empty manifest", r->name,
			r->endpoint.host);
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
	int x = get_from_endpoint(r, "manifests", r->ref.tag, &f, e);
	/* A server that answers may know GET. */
	if (x < 0 && (r->next_mirror < r->mirrors.len || r->endpoint.fetcher.status >= 500))
		e->kind = ERR_NOT_FOUND;
	if (x < 0)
		return x;
	if (!reference_is_digest(f.digest))
		return err_set(e, ERR_NOT_FOUND, 0, "%s: no digest", r->name);
	(void)snprintf(digest, REFERENCE_DIGEST_SIZE, "%.71s", f.digest);
	return 0;
}

static int fetch_blobs(struct registry *r, struct blob *blobs, size_t n, struct err *e)
{
	struct fetch *fetches = calloc(n ? n : 1, sizeof(*fetches));
	cleanup_strv char **urls = strv_new();
	size_t wanted = 0;
	int x = fetches && urls ? 0 : -ENOMEM;

	endpoint_decide(&r->endpoint);
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
	else
		x = fetch_run(&r->endpoint.fetcher, fetches, wanted, e);
	free(fetches);
	return x;
}

int registry_fetch_blobs(struct registry *r, struct blob *blobs, size_t n, struct err *e)
{
	int x;

	while ((x = fetch_blobs(r, blobs, n, e)) < 0)
		if (next_mirror(r, e) < 0)
			return text_starts_with(e->what, r->name) ? err_code(e)
								  : err_wrap(e, "%s", r->name);
	return x;
}
