/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stages of a pull, and what each leaves behind when it fails:
 *
 *   resolve   name -> manifest and configuration of the platform: in memory only
 *   lock      one process makes the image of a manifest's digest; if it is there now, that is all
 *   fetch     layers into the work folder, each checked against its digest and size
 *   convert   layers -> one file in the work folder, by the confined worker
 *   check     the unpacked layers' digests against the configuration
 *   publish   rename: from here on it is there
 *
 * The work folder goes on every way out; only a killed process leaves one, which the next pull of
 * the same image continues.
 */
#include "pull.h"

#include "convert.h"
#include "finish.h"
#include "registry.h"

#include "../base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Compressed layers, their unpacked image and some room: what a pull needs at most, as a rule. */
#define SPACE_FACTOR 3

struct blobs {
	struct blob *items; /* one for each digest */
	size_t len;
};

static void blobs_release(struct blobs *b)
{
	for (size_t i = 0; i < b->len; i++)
		blob_release(&b->items[i]);
	free(b->items);
}

static struct blob *find_blob(const struct blobs *b, const char *digest)
{
	for (size_t i = 0; i < b->len; i++)
		if (strcmp(b->items[i].descriptor.digest, digest) == 0)
			return &b->items[i];
	return NULL;
}

/* A layer may stand in a manifest more than once: it is fetched once. */
static int prepare_blobs(
	const struct image *image, const struct workdir *w, struct blobs *ret, struct err *e)
{
	const struct manifest *m = &image->manifest;

	ret->items = calloc(m->len, sizeof(*ret->items));
	if (!ret->items)
		return err_errno(e, ENOMEM, "%s", image->digest);
	for (size_t i = 0; i < m->len; i++) {
		const struct descriptor *d = &m->descriptors[i];
		const struct blob *same = find_blob(ret, d->digest);
		if (same && same->descriptor.size != d->size)
			return err_set(e, ERR_PROTOCOL, 0,
				"the manifest gives two sizes for layer %s", d->digest);
		if (same)
			continue;
		int r = blob_init(&ret->items[ret->len], w, d, e);
		if (r < 0)
			return r;
		ret->len++;
	}
	return 0;
}

static int convert_blobs(const struct image *image, const struct blobs *blobs,
	const struct workdir *w, uint64_t *ret_size, struct err *e)
{
	cleanup_converted struct converted made = {0};
	const struct manifest *m = &image->manifest;
	int fds[MANIFEST_LAYERS_MAX];
	size_t opened = 0;
	int r = 0;

	for (; opened < m->len && r >= 0; opened += r >= 0) {
		r = blob_open(find_blob(blobs, m->descriptors[opened].digest), e);
		fds[opened] = r;
	}
	if (r >= 0)
		r = convert_layers(w, fds, m->len, &made, e);
	for (size_t i = 0; i < opened; i++)
		(void)fd_close(fds[i]);
	if (r >= 0)
		r = finish_check_diff_ids(&image->config, made.diff_ids, e);
	if (r >= 0)
		*ret_size = made.size;
	return r < 0 ? r : 0;
}

static int make_image(struct registry *registry, const struct image *image,
	const struct images *images, uint64_t *ret_size, struct err *e)
{
	cleanup_workdir struct workdir w = WORKDIR_NONE;
	struct blobs blobs = {0};
	int r;

	if ((r = convert_check(e)) < 0 || (r = workdir_open(images, image->digest, &w, e)) < 0 ||
		(r = images_check_space(
			 images, image_layers_size(image) * SPACE_FACTOR, registry->name, e)) < 0)
		return r;
	if ((r = prepare_blobs(image, &w, &blobs, e)) == 0 &&
		(r = registry_fetch_blobs(registry, blobs.items, blobs.len, e)) == 0 &&
		(r = convert_blobs(image, &blobs, &w, ret_size, e)) < 0)
		r = err_wrap(e, "%s", registry->name);
	blobs_release(&blobs);
	return r < 0 ? r : images_publish(&w, CONVERT_FILE, image->digest, e);
}

int pull_image(const struct pull *p, const struct images *images, struct claim *ret_claim,
	json_t **ret, struct err *e)
{
	cleanup_registry struct registry registry = {0};
	cleanup_image struct image image = {0};
	struct reference ref;
	uint64_t size = 0;
	int r;

	if ((r = reference_parse(p->ref, &ref, e)) < 0 ||
		(r = registry_open(&registry, &ref, p->plain_http, images->output, e)) < 0 ||
		(r = registry_resolve(&registry, &p->platform, &image, e)) < 0)
		return r;
	if ((r = claim_take(images, image.digest, NULL, ret_claim, e)) < 0 ||
		(r = images_find(images, image.digest, &size, e)) < 0)
		return r;
	bool cached = size > 0;
	if (!cached && (r = make_image(&registry, &image, images, &size, e)) < 0)
		return r;
	*ret = finish_result(&image, registry.name, size, cached, e);
	return *ret ? 0 : err_code(e);
}
