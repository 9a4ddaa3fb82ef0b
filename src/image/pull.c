/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stages of a pull, and what each leaves behind when it fails:
 *
 *   resolve   name -> manifest and configuration of the platform: in memory only
 *   claim     the image's digest, as one worker makes it at a time; then all that it consists of,
 *             and only then a look at what is there
 *   fetch     the layers that are not: each checked against its digest and size, then kept. Those
 *             that another worker is at are waited for when ours are done
 *   convert   layers -> one file in the work folder, by the confined worker; the unpacked layers'
 *             digests are checked against the configuration
 *   keep      documents and layers are on disk for sure
 *   publish   rename: from here on it is there
 *
 * Whatever happens, also a kill, every blob that is kept is whole, and every partial one is hashed
 * before it is continued. How the claim is released says what stays of them (claim.h). The work
 * folder goes on every way out; that of a killed worker is swept by the next one.
 */
#include "pull.h"

#include "convert.h"
#include "finish.h"
#include "layer-set.h"
#include "source.h"

#include "../base/fd.h"
#include "../base/text.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* An unpacked image and some room, in sizes of its layers: what it needs at most, as a rule. */
#define UNPACKED_FACTOR 2

struct making {
	struct source *source;
	const struct images *images;
	const struct image *image;
	struct layer_set layers;
	struct workdir workdir;
};

/* ---- waiting for the same image in another worker ---- */

struct image_wait {
	struct wait wait; /* first */
	const struct images *images;
	const struct image *image;
};

static uint64_t size_of(int dirfd, const char *name)
{
	struct stat st;

	return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_size : 0;
}

static uint64_t image_seen(const struct wait *w)
{
	const struct image_wait *x = (const struct image_wait *)w;
	const struct manifest *m = &x->image->manifest;
	char made[100];

	(void)snprintf(
		made, sizeof(made), "%s/%s", x->image->digest + strlen("sha256:"), CONVERT_FILE);
	uint64_t sum = size_of(x->images->workfd, made);
	for (size_t i = 0; i < m->len; i++) {
		const char *hex = m->descriptors[i].digest + strlen("sha256:");
		sum += size_of(x->images->partialfd, hex) + size_of(x->images->blobsfd, hex);
	}
	return sum;
}

static int claim(
	const struct images *i, const struct image *image, struct claim *ret, struct err *e)
{
	const struct image_wait wait = {{image_seen}, i, image};
	int r = claim_take(i, image->digest, &wait.wait, ret, e);

	return r < 0 ? r : finish_claim(ret, image, e);
}

/* ---- fetch ---- */

static int fetch_ours(struct making *m, struct err *e)
{
	struct registry *registry;
	int r = source_registry(m->source, &registry, e);

	return r < 0 ? r : registry_fetch_blobs(registry, m->layers.items, m->layers.len, e);
}

static int fetch_layers(struct making *m, struct err *e)
{
	struct blob *busy;
	bool all_here, told = false;
	int r;

	while ((r = layer_set_look(&m->layers, &all_here, e)) == 0) {
		layer_set_tell(&m->layers);
		if (all_here)
			break;
		if ((r = fetch_ours(m, e)) < 0)
			return r;
		/* Holding none ourselves, so that two workers never wait for each other. */
		if (!(busy = layer_set_busy(&m->layers)))
			continue;
		if (!told)
			output_waiting(m->images->output,
				"waiting for another process that fetches %s", busy->what);
		told = true;
		if ((r = blob_wait(busy, &m->workdir, e)) < 0)
			return r;
	}
	return r;
}

/* ---- convert ---- */

static int convert_once(struct making *m, uint64_t *ret_size, struct err *e)
{
	cleanup_converted struct converted made = {0};
	const struct image *image = m->image;
	int readers[MANIFEST_LAYERS_MAX];
	int r;

	layer_set_readers(&m->layers, &image->manifest, readers);
	if ((r = convert_layers(
		     &m->workdir, CONVERT_PULL, readers, image->manifest.len, &made, e)) < 0 ||
		(r = finish_check_diff_ids(&image->config, made.diff_ids, e)) < 0)
		return r;
	*ret_size = made.size;
	return 0;
}

/* What a layer that went bad on our disk may look like. */
static bool may_be_damage(const struct err *e)
{
	return e->kind == ERR_CORRUPT || e->kind == ERR_INVALID || e->kind == ERR_UNSUPPORTED ||
	       e->kind == ERR_LIMIT;
}

static int convert(struct making *m, uint64_t *ret_size, struct err *e)
{
	int r = convert_once(m, ret_size, e);

	if (r == 0 || !may_be_damage(e) || !layer_set_drop_damaged(&m->layers))
		return r;
	output_notice(
		m->images->output, "a layer was damaged on this host's disk: it is fetched again");
	if ((r = fetch_layers(m, e)) < 0)
		return r;
	return convert_once(m, ret_size, e);
}

/* ---- all of it ---- */

static int check_space(const struct making *m, struct err *e)
{
	uint64_t needed =
		layer_set_missing(&m->layers) + image_layers_size(m->image) * UNPACKED_FACTOR;

	return images_check_space(m->images, needed, m->source->name, e);
}

static int make_image(struct making *m, const struct claim *c, uint64_t *ret_size, struct err *e)
{
	int r;

	if ((r = convert_check(e)) < 0 ||
		(r = workdir_open(m->images, c->name, &m->workdir, e)) < 0 ||
		(r = check_space(m, e)) < 0 || (r = fetch_layers(m, e)) < 0)
		return r;
	/* Another worker may have made it, if we gave up waiting for it. */
	if ((r = images_find(m->images, m->image->digest, ret_size, e)) < 0)
		return r;
	if (*ret_size > 0)
		return finish_keep(m->images, m->image, e);
	if ((r = convert(m, ret_size, e)) < 0)
		return err_wrap(e, "%s", m->source->name);
	if ((r = finish_keep(m->images, m->image, e)) < 0)
		return r;
	return images_publish(&m->workdir, CONVERT_FILE, m->image->digest, e);
}

static void making_release(struct making *m)
{
	layer_set_release(&m->layers);
	workdir_remove(&m->workdir);
}

/* ret_cached: it was here, and so was all that it is made of. */
static int have_image(struct source *s, const struct image *image, const struct claim *c,
	uint64_t *ret_size, bool *ret_cached, struct err *e)
{
	const struct images *i = s->images;
	struct making m = {.source = s, .images = i, .image = image, .workdir = WORKDIR_NONE};
	bool all_here = false;
	int r;

	if ((r = images_find(i, image->digest, ret_size, e)) == 0 &&
		(r = layer_set_init(&m.layers, &image->manifest, i, e)) == 0)
		r = layer_set_look(&m.layers, &all_here, e);
	*ret_cached = all_here && *ret_size > 0;
	if (r == 0)
		r = *ret_cached ? finish_keep(i, image, e) : make_image(&m, c, ret_size, e);
	making_release(&m);
	return r;
}

int pull_image(const struct pull *p, const struct images *images, struct claim *ret_claim,
	json_t **ret, struct err *e)
{
	cleanup_source struct source source = {0};
	cleanup_image struct image image = {0};
	uint64_t size;
	bool cached;
	int r;

	if ((r = source_init(&source, p->ref, p->plain_http, images, e)) < 0 ||
		(r = source_resolve(&source, &p->platform, &image, e)) < 0 ||
		(r = claim(images, &image, ret_claim, e)) < 0 ||
		(r = have_image(&source, &image, ret_claim, &size, &cached, e)) < 0)
		return r;
	*ret = finish_result(&image, source.name, size, cached, e);
	return *ret ? 0 : err_code(e);
}
