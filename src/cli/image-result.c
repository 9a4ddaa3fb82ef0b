/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of kosa8-image: events for the progress, and the result. */
#include "image-worker.h"

#include "../base/buf.h"
#include "../proto/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_MAX (9u * 1024 * 1024)
#define LOADED_MAX 256 /* images of one archive */

static int out_of_memory(struct err *e)
{
	return err_set(e, ERR_IO, ENOMEM, "out of memory");
}

static void got_release(struct image_got *g)
{
	free(g->ref);
	free(g->config);
	free(g->blobs);
}

void image_gots_release(struct image_gots *g)
{
	for (size_t i = 0; i < g->len; i++)
		got_release(&g->items[i]);
	free(g->items);
	json_decref(g->result);
	*g = (struct image_gots){0};
}

static int get_digest(
	const json_t *o, const char *key, char ret[static REFERENCE_DIGEST_SIZE], struct err *e)
{
	const char *digest;
	int r = json_get_str(o, key, REFERENCE_DIGEST_SIZE - 1, &digest, e);

	if (r < 0)
		return r;
	if (!reference_is_digest(digest))
		return err_set(e, ERR_PROTOCOL, 0, "\"%s\" is not a digest", key);
	memcpy(ret, digest, REFERENCE_DIGEST_SIZE);
	return 0;
}

/* Each once: the catalog holds it to that. */
static bool has_blob(const struct image_got *g, const char *digest)
{
	for (size_t i = 0; i < g->blobs_len; i++)
		if (strcmp(g->blobs[i].digest, digest) == 0)
			return true;
	return false;
}

static int take_blobs(const json_t *o, struct image_got *g, struct err *e)
{
	json_t *blobs, *item;
	size_t i;
	int r = json_get_array(o, "blobs", IMAGE_BLOBS_MAX, &blobs, e);

	if (r < 0)
		return r;
	g->blobs = calloc(json_array_size(blobs) + 1, sizeof(*g->blobs));
	if (!g->blobs)
		return out_of_memory(e);
	json_array_foreach (blobs, i, item) {
		struct image_blob b;
		if ((r = get_digest(item, "digest", b.digest, e)) < 0 ||
			(r = json_get_u64(item, "size", INT64_MAX, &b.size_bytes, e)) < 0)
			return r;
		if (has_blob(g, b.digest))
			return err_set(
				e, ERR_PROTOCOL, 0, "\"blobs\" has %.20s... twice", b.digest);
		g->blobs[g->blobs_len++] = b;
	}
	return 0;
}

/* OS/ARCHITECTURE[/VARIANT] of the configuration. */
static int take_platform(const json_t *config, struct image_got *g, struct err *e)
{
	const char *os, *arch, *variant;
	int r;

	if ((r = json_get_str_or(config, "os", 16, "linux", &os, e)) < 0 ||
		(r = json_get_str_or(config, "architecture", 16, "amd64", &arch, e)) < 0 ||
		(r = json_get_str_or(config, "variant", 16, "", &variant, e)) < 0)
		return r;
	(void)snprintf(g->platform, sizeof(g->platform), "%s/%s%s%s", os, arch, *variant ? "/" : "",
		variant);
	return 0;
}

static int take_config(const json_t *o, struct image_got *g, struct err *e)
{
	cleanup_buf struct buf b = {0};
	json_t *config;
	int r = json_get_object(o, "config", &config, e);

	if (r < 0 || (r = take_platform(config, g, e)) < 0)
		return r;
	buf_init(&b, CONFIG_MAX);
	json_put_canonical(&b, config);
	g->config = buf_take_cstr(&b);
	return g->config ? 0 : out_of_memory(e);
}

static int take_got(const json_t *o, struct image_got *g, struct err *e)
{
	const char *ref;
	int r;

	if ((r = get_digest(o, "digest", g->digest, e)) < 0 ||
		(r = json_get_str_or(o, "ref", REFERENCE_CANONICAL_SIZE, NULL, &ref, e)) < 0 ||
		(r = json_get_u64(o, "size", INT64_MAX, &g->size_bytes, e)) < 0 ||
		(r = json_get_bool_or(o, "cached", false, &g->cached, e)) < 0 ||
		(r = take_config(o, g, e)) < 0 || (r = take_blobs(o, g, e)) < 0)
		return r;
	g->ref = ref ? strdup(ref) : NULL;
	return ref && !g->ref ? out_of_memory(e) : 0;
}

static int add_got(const json_t *o, struct image_gots *g, struct err *e)
{
	struct image_got got = {0};
	struct image_got *items = reallocarray(g->items, g->len + 1, sizeof(*items));

	if (!items)
		return out_of_memory(e);
	g->items = items;
	int r = take_got(o, &got, e);
	if (r < 0) {
		got_release(&got);
		return r;
	}
	items[g->len++] = got;
	return 0;
}

static int take_result(json_t *o, struct image_gots *ret, struct err *e)
{
	json_t *images, *item;
	bool ok;
	size_t i;
	int r = json_get_bool_or(o, "ok", false, &ok, e);

	if (r < 0)
		return r;
	if (!ok) {
		client_error_decode(json_object_get(o, "error"), e);
		return err_code(e);
	}
	json_decref(ret->result);
	ret->result = json_incref(o);
	if (json_object_get(o, "digest"))
		return add_got(o, ret, e);
	if (!json_object_get(o, "images"))
		return 0;
	if ((r = json_get_array(o, "images", LOADED_MAX, &images, e)) < 0)
		return r;
	json_array_foreach (images, i, item)
		if ((r = add_got(item, ret, e)) < 0)
			return r;
	return 0;
}

static int take_layer(const json_t *o, struct progress *p, struct err *e)
{
	char digest[REFERENCE_DIGEST_SIZE];
	const char *state;
	uint64_t size, done;
	int r;

	if ((r = get_digest(o, "digest", digest, e)) < 0 ||
		(r = json_get_u64_or(o, "size", INT64_MAX, 0, &size, e)) < 0 ||
		(r = json_get_u64_or(o, "done", INT64_MAX, 0, &done, e)) < 0 ||
		(r = json_get_str_or(o, "state", 32, "", &state, e)) < 0)
		return r;
	progress_layer(p, digest, size, done, strcmp(state, "here") == 0);
	return 0;
}

static int take_event(const json_t *o, struct progress *p, struct err *e)
{
	const char *event = NULL, *text;
	uint64_t bytes, layer;
	int r;

	if ((r = json_get_str(o, "event", 32, &event, e)) < 0)
		return r;
	if (strcmp(event, "layer") == 0)
		return take_layer(o, p, e);
	if (strcmp(event, "convert") == 0) {
		if ((r = json_get_u64_or(o, "layer", UINT32_MAX, 0, &layer, e)) < 0 ||
			(r = json_get_u64_or(o, "bytes", INT64_MAX, 0, &bytes, e)) < 0)
			return r;
		progress_convert(p, layer, bytes);
	} else if (strcmp(event, "notice") == 0 || strcmp(event, "waiting") == 0) {
		if ((r = json_get_str(o, "text", 4096, &text, e)) < 0)
			return r;
		if (!p->quiet || strcmp(event, "notice") == 0)
			progress_notice(p, text);
	}
	return 0;
}

int image_worker_line(
	const char *line, size_t len, struct progress *p, struct image_gots *ret, struct err *e)
{
	cleanup_json *o = NULL;
	int r = json_parse_object(line, len, "kosa8-image's line", &o, e);

	if (r < 0)
		return r;
	if (!json_object_get(o, "ok"))
		return take_event(o, p, e);
	r = take_result(o, ret, e);
	return r < 0 ? r : 1;
}
