/* SPDX-License-Identifier: Apache-2.0 */
#include "source.h"

#include "blobs.h"
#include "confine-client.h"
#include "registry/certs-paths.h"

#include "../base/strv.h"
#include "../base/text.h"

#include <errno.h>

static int get_document(struct documents *d, const struct descriptor *descriptor, bool is_config,
	struct buf *ret, struct err *e)
{
	struct source *s = (struct source *)d;
	struct registry *registry;
	struct err ignored;
	int r;

	if (blobs_read(s->images, descriptor->digest,
		    is_config ? CONFIG_BYTES_MAX : MANIFEST_BYTES_MAX, ret, &ignored) == 0 &&
		ret->len == descriptor->size)
		return 0;
	buf_release(ret);
	if ((r = source_registry(s, &registry, e)) < 0)
		return r;
	return registry->documents.get(&registry->documents, descriptor, is_config, ret, e);
}

int source_init(
	struct source *s, const char *ref, bool plain_http, const struct images *i, struct err *e)
{
	*s = (struct source){.documents = {get_document}, .images = i};
	int r = reference_parse(ref, &s->ref, e);
	if (r < 0)
		return r;
	reference_canonical(&s->ref, s->name);
	return registry_init(&s->registry, &s->ref, plain_http, i->output, e);
}

void source_release(struct source *s)
{
	registry_release(&s->registry);
	s->opened = false;
}

static int confine(const struct source *s, struct err *e)
{
	cleanup_strv char **readable = strv_new();

	if (!readable || certs_paths(&readable) < 0)
		return err_errno(e, ENOMEM, "cannot confine the pull");
	return confine_image_worker(
		CONFINE_PULL, s->images->path, (const char *const *)readable, e);
}

static int get_ready(struct source *s, bool ask_helpers, struct err *e)
{
	if (s->confined || registry_look_up(&s->registry, ask_helpers) > 0)
		return 0;
	int r = confine(s, e);
	if (r == 0)
		s->confined = true;
	return r;
}

int source_registry(struct source *s, struct registry **ret, struct err *e)
{
	if (!s->opened) {
		int r = get_ready(s, true, e);
		if (r < 0 || (r = registry_open(&s->registry, e)) < 0)
			return r;
		s->opened = true;
	}
	*ret = &s->registry;
	return 0;
}

/* The digest that the tag leads to now; ERR_NOT_FOUND when it is better to ask for the document. */
static int ask_digest(struct source *s, char ret[static REFERENCE_DIGEST_SIZE], struct err *e)
{
	struct registry *registry;
	int r;

	if (!blobs_any(s->images))
		return err_set(e, ERR_NOT_FOUND, 0, "nothing is here");
	if ((r = source_registry(s, &registry, e)) < 0)
		return r;
	r = registry_head(registry, ret, e);
	/* A registry that cannot be reached would be asked in vain again; for all else its answer
	 * to the real question counts. */
	if (r < 0 && e->kind != ERR_UNAVAILABLE && e->kind != ERR_TIMEOUT &&
		e->kind != ERR_CANCELLED)
		e->kind = ERR_NOT_FOUND;
	return r;
}

/* The document that the name leads to, if it is kept here. */
static int find_root(
	struct source *s, struct buf *ret, char digest[static REFERENCE_DIGEST_SIZE], struct err *e)
{
	int r = s->ref.digest[0] ? get_ready(s, false, e) : ask_digest(s, digest, e);

	if (r < 0)
		return r;
	if (s->ref.digest[0])
		(void)snprintf(digest, REFERENCE_DIGEST_SIZE, "%s", s->ref.digest);
	if (blobs_read(s->images, digest, MANIFEST_BYTES_MAX, ret, e) < 0)
		return err_set(e, ERR_NOT_FOUND, 0, "%s is not here", digest);
	return 0;
}

static int get_root(struct source *s, struct buf *ret, char digest[static REFERENCE_DIGEST_SIZE],
	char type[static MANIFEST_TYPE_SIZE], struct err *e)
{
	struct registry *registry;
	int r = find_root(s, ret, digest, e);

	*type = '\0';
	if (r == 0 || e->kind != ERR_NOT_FOUND)
		return r;
	buf_release(ret);
	if ((r = source_registry(s, &registry, e)) < 0)
		return r;
	return registry_root(registry, ret, digest, type, e);
}

int source_resolve(struct source *s, const struct platform *p, struct image *ret, struct err *e)
{
	cleanup_buf struct buf root = {0};
	char digest[REFERENCE_DIGEST_SIZE], type[MANIFEST_TYPE_SIZE];
	int r = get_root(s, &root, digest, type, e);

	if (r < 0)
		return r;
	r = resolve_root(&s->documents, &root, digest, type, p, ret, e);
	return r < 0 && !text_starts_with(e->what, s->name) ? err_wrap(e, "%s", s->name) : r;
}
