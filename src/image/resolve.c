/* SPDX-License-Identifier: Apache-2.0 */
#include "resolve.h"

#include <assert.h>
#include <string.h>

void image_add_document(struct image *i, const char *digest, struct buf *bytes)
{
	assert(i->documents_len < IMAGE_DOCUMENTS_MAX);
	struct document *d = &i->documents[i->documents_len++];

	(void)snprintf(d->digest, sizeof(d->digest), "%s", digest);
	d->bytes = *bytes;
	*bytes = (struct buf){0};
}

void image_release(struct image *i)
{
	manifest_release(&i->manifest);
	image_config_release(&i->config);
	for (size_t n = 0; n < i->documents_len; n++)
		buf_release(&i->documents[n].bytes);
	i->documents_len = 0;
}

static int resolve(struct documents *d, struct buf *data, const char *digest,
	const char *content_type, const struct platform *p, int depth, struct image *ret,
	struct err *e);

static int resolve_child(struct documents *d, const struct descriptor *child,
	const struct platform *p, int depth, struct image *ret, struct err *e)
{
	cleanup_buf struct buf b = {0};
	int r;

	if (child->size > MANIFEST_BYTES_MAX)
		return err_set(e, ERR_LIMIT, 0, "the manifest %s is larger than %u bytes",
			child->digest, MANIFEST_BYTES_MAX);
	if ((r = d->get(d, child, false, &b, e)) < 0)
		return r;
	return resolve(d, &b, child->digest, child->media_type[0] ? child->media_type : NULL, p,
		depth, ret, e);
}

/* Tries the fitting entries in order: one that does not name its platform, or a nested index, may
 * turn out to be for another one. */
static int resolve_index(struct documents *d, const struct manifest *index,
	const struct platform *p, int depth, struct image *ret, struct err *e)
{
	const struct descriptor *child;
	struct err first = {0};

	if (depth == 0)
		return err_set(e, ERR_LIMIT, 0, "its index is nested more than %d deep",
			RESOLVE_DEPTH_MAX);
	for (size_t skip = 0; (child = manifest_choose(index, p, skip)); skip++) {
		int r = resolve_child(d, child, p, depth - 1, ret, e);
		if (r == 0 || e->kind != ERR_INCOMPATIBLE || child->platform.os[0])
			return r;
		if (first.kind == ERR_NONE)
			first = *e;
	}
	if (first.kind != ERR_NONE) {
		*e = first;
		return err_code(e);
	}
	return manifest_wrong_platform(index, p, e);
}

static int resolve_image(struct documents *d, struct manifest *m, const char *digest,
	const struct platform *p, struct image *ret, struct err *e)
{
	cleanup_image_config struct image_config config = {0};
	cleanup_buf struct buf b = {0};
	int r;

	if (m->config.size > CONFIG_BYTES_MAX)
		return err_set(e, ERR_LIMIT, 0, "the image's configuration is larger than %u bytes",
			CONFIG_BYTES_MAX);
	if ((r = d->get(d, &m->config, true, &b, e)) < 0 ||
		(r = image_config_parse(b.data, b.len, m->len, &config, e)) < 0 ||
		(r = image_config_check_platform(&config, p, e)) < 0)
		return r;
	*ret = (struct image){.manifest = *m, .config = config};
	(void)snprintf(ret->digest, sizeof(ret->digest), "%s", digest);
	image_add_document(ret, m->config.digest, &b);
	*m = (struct manifest){0};
	config = (struct image_config){0};
	return 0;
}

/* Takes the data on success. */
static int resolve(struct documents *d, struct buf *data, const char *digest,
	const char *content_type, const struct platform *p, int depth, struct image *ret,
	struct err *e)
{
	cleanup_manifest struct manifest m = {0};
	int r = manifest_parse(data->data, data->len, content_type, &m, e);

	if (r == 0 && m.kind == MANIFEST_INDEX)
		r = resolve_index(d, &m, p, depth, ret, e);
	else if (r == 0)
		r = resolve_image(d, &m, digest, p, ret, e);
	if (r == 0)
		image_add_document(ret, digest, data);
	return r;
}

int resolve_root(struct documents *d, struct buf *root, const char *digest,
	const char *content_type, const struct platform *p, struct image *ret, struct err *e)
{
	return resolve(d, root, digest, content_type, p, RESOLVE_DEPTH_MAX, ret, e);
}

int resolve_descriptor(struct documents *d, const struct descriptor *root, const struct platform *p,
	struct image *ret, struct err *e)
{
	return resolve_child(d, root, p, RESOLVE_DEPTH_MAX, ret, e);
}

uint64_t image_layers_size(const struct image *i)
{
	uint64_t sum = 0; /* cannot wrap: MANIFEST_LAYERS_MAX times LAYER_BYTES_MAX */

	for (size_t n = 0; n < i->manifest.len; n++)
		sum += i->manifest.descriptors[n].size;
	return sum;
}
