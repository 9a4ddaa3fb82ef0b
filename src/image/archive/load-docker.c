/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docker-archive: manifest.json is [{"Config":NAME,"RepoTags":[..],"Layers":[NAME,..]}],
 * Layers null in docker's own when there are none. Each layer is kept as it is in the archive, and
 * a manifest is made (synthesis.h).
 */
#include "load.h"
#include "synthesis.h"

#include "../../base/fd.h"
#include "../../base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 1024

/* Where the name of the configuration holds its digest, it must be right. */
static int check_config_name(const char *name, const struct copied *content, struct err *e)
{
	const char *base = strrchr(name, '/');

	base = base ? base + 1 : name;
	if (strspn(base, "0123456789abcdef") != SHA256_HEX_SIZE - 1)
		return 0;
	if (strncmp(base, content->digest + strlen("sha256:"), SHA256_HEX_SIZE - 1) != 0)
		return err_set(e, ERR_CORRUPT, 0, "the configuration %.64s has another digest (%s)",
			base, content->digest);
	return 0;
}

struct layers {
	struct descriptor descriptors[MANIFEST_LAYERS_MAX];
	struct member members[MANIFEST_LAYERS_MAX];
	size_t len;
};

static int find_layer(struct load *l, const json_t *name, struct layers *to, struct err *e)
{
	struct member *m = &to->members[to->len];

	if (!json_is_string(name))
		return err_set(e, ERR_INVALID, 0, "\"Layers\" is not a list of names");
	int r = files_member(&l->files, json_string_value(name), LAYER_BYTES_MAX, m, e);
	if (r < 0)
		return r;
	cleanup_fd int fd = files_open_member(&l->files, m, e);
	if (fd < 0)
		return fd;
	r = synthesis_layer(fd, &m->content, &to->descriptors[to->len], e);
	to->len += r == 0;
	return r;
}

static int find_layers(struct load *l, json_t *names, struct layers *to, struct err *e)
{
	json_t *name;
	size_t i;

	json_array_foreach (names, i, name) {
		int r = find_layer(l, name, to, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int keep_layers(struct load *l, const struct layers *layers, struct err *e)
{
	for (size_t i = 0; i < layers->len; i++) {
		const char *digest = layers->descriptors[i].digest;
		int r = keep_wants(&l->keep, digest, e);
		if (r < 0)
			return r;
		if (r > 0)
			keep_file(&l->keep, digest, layers->members[i].file);
	}
	return 0;
}

/* One that is no name is left out: the image is still worth having. */
static int add_names(
	struct load *l, const json_t *tags, const struct load_image *made, struct err *e)
{
	char canonical[REFERENCE_CANONICAL_SIZE];
	bool named = false;
	json_t *tag;
	size_t i;
	int r;

	if (tags && !json_is_null(tags) && !json_is_array(tags))
		return err_set(e, ERR_INVALID, 0, "\"RepoTags\" is not a list of names");
	if (json_array_size(tags) > LOAD_NAMES_MAX)
		return err_set(e, ERR_LIMIT, 0, "it holds more than %d names", LOAD_NAMES_MAX);
	json_array_foreach (tags, i, tag) {
		const char *written = json_is_string(tag) ? json_string_value(tag) : "(not text)";
		if (!load_name(l, made, written, canonical))
			continue;
		if ((r = load_add_name(l, made, canonical, e)) < 0)
			return r;
		named = true;
	}
	return named ? 0 : load_add_name(l, made, NULL, e);
}

static int load_item(struct load *l, const json_t *item, json_t *names, struct layers *layers,
	struct buf *config_bytes, struct err *e)
{
	cleanup_image_config struct image_config config = {0};
	cleanup_image struct image image = {0};
	const struct load_image *made;
	int r;

	if ((r = image_config_parse(config_bytes->data, config_bytes->len, json_array_size(names),
		     &config, e)) < 0 ||
		(r = image_config_check_platform(&config, l->platform, e)) < 0 ||
		(r = find_layers(l, names, layers, e)) < 0 ||
		(r = synthesis_image(
			 config_bytes, &config, layers->descriptors, layers->len, &image, e)) < 0 ||
		(r = finish_claim(l->claim, &image, e)) < 0 ||
		(r = keep_layers(l, layers, e)) < 0 || (r = load_make(l, &image, &made, e)) < 0)
		return r;
	return add_names(l, json_object_get(item, "RepoTags"), made, e);
}

static int load_docker_image(struct load *l, const json_t *item, struct err *e)
{
	cleanup_buf struct buf config = {0};
	struct member m;
	json_t *names;
	const char *name;
	int r;

	if ((r = json_get_str(item, "Config", NAME_MAX_BYTES, &name, e)) < 0 ||
		(r = json_get_array_or_null(item, "Layers", MANIFEST_LAYERS_MAX, &names, e)) < 0)
		return err_wrap(e, "its manifest.json");
	if ((r = files_read(&l->files, name, CONFIG_BYTES_MAX, &config, &m, e)) < 0 ||
		(r = check_config_name(name, &m.content, e)) < 0)
		return r;
	struct layers *layers = calloc(1, sizeof(*layers));
	if (!layers)
		return err_errno(e, ENOMEM, "reading the image");
	r = load_item(l, item, names, layers, &config, e);
	free(layers);
	return r;
}

static const char *first_name(const json_t *item)
{
	const char *name = json_string_value(json_array_get(json_object_get(item, "RepoTags"), 0));

	return name ? name : json_string_value(json_object_get(item, "Config"));
}

int load_docker(struct load *l, struct err *e)
{
	cleanup_buf struct buf b = {0};
	struct err incompatible = {0};
	json_t *item;
	size_t i;
	int r = files_read(&l->files, "manifest.json", MANIFEST_BYTES_MAX, &b, NULL, e);

	if (r < 0)
		return r;
	cleanup_json *list = json_loadb((const char *)b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_array(list) || json_array_size(list) == 0)
		return err_set(e, ERR_INVALID, 0, "its manifest.json is not a list of images");
	json_array_foreach (list, i, item) {
		r = load_docker_image(l, item, e);
		if (r < 0 && e->kind != ERR_INCOMPATIBLE) {
			const char *name = first_name(item);
			return load_blame(name ? name : "without a name", json_array_size(list), e);
		}
		if (r < 0)
			load_pass_over(l, first_name(item), e, &incompatible);
	}
	if (json_array_size(l->results) > 0)
		return 0;
	*e = incompatible;
	return err_code(e);
}
