/* SPDX-License-Identifier: Apache-2.0 */
#include "load.h"

#include "convert.h"
#include "files.h"
#include "finish.h"
#include "resolve.h"
#include "synthesis.h"
#include "worker.h"

#include "../base/fd.h"
#include "../base/hash.h"
#include "../base/text.h"

#include <errno.h>
#include <string.h>

struct made {
	char digest[REFERENCE_DIGEST_SIZE];
	char file[24]; /* in the work folder */
	uint64_t size;
};

struct load {
	struct documents documents; /* first: of an OCI layout, for resolve.h */
	const struct images *images;
	struct claim *claim;
	const struct platform *platform;
	struct workdir workdir;
	struct files files;
	json_t *results;
	struct made made[LOAD_IMAGES_MAX]; /* not published yet */
	size_t made_len;
};

/* ---- what both kinds end with ---- */

static int add_result(struct load *l, const struct image *image, const char *ref, uint64_t size,
	bool cached, struct err *e)
{
	if (json_array_size(l->results) >= LOAD_NAMES_MAX)
		return err_set(e, ERR_LIMIT, 0, "it holds more than %d names", LOAD_NAMES_MAX);
	json_t *o = finish_result(image, ref, size, cached, e);
	if (!o)
		return err_code(e);
	return json_array_append_new(l->results, o) < 0 ? err_errno(e, ENOMEM, "the result") : 0;
}

/* Makes the image unless it is there, under a name of ours in the work folder; layers are opened
 * files. */
static int make_image(struct load *l, const char *digest, const struct image_config *config,
	const int *layers, size_t n, uint64_t *ret_size, bool *ret_cached, struct err *e)
{
	cleanup_converted struct converted made = {0};
	struct made *m = &l->made[l->made_len];
	int r;

	for (size_t i = 0; i < l->made_len; i++)
		if (strcmp(l->made[i].digest, digest) == 0) {
			*ret_size = l->made[i].size;
			*ret_cached = false;
			return 0;
		}
	if ((r = claim_add(l->claim, &digest, 1, e)) < 0 ||
		(r = images_find(l->images, digest, ret_size, e)) < 0)
		return r;
	*ret_cached = *ret_size > 0;
	if (*ret_cached)
		return 0;
	if (l->made_len == LOAD_IMAGES_MAX)
		return err_set(e, ERR_LIMIT, 0, "it holds more than %d images", LOAD_IMAGES_MAX);
	if ((r = convert_layers(&l->workdir, layers, n, &made, e)) < 0 ||
		(r = finish_check_diff_ids(config, made.diff_ids, e)) < 0)
		return r;
	(void)snprintf(m->file, sizeof(m->file), "made-%zu", l->made_len);
	(void)snprintf(m->digest, sizeof(m->digest), "%s", digest);
	m->size = *ret_size = made.size;
	if (renameat(l->workdir.fd, CONVERT_FILE, l->workdir.fd, m->file) < 0)
		return images_write_error(l->images, errno, "the image", e);
	l->made_len++;
	return 0;
}

/* Only when all that the archive holds was made, and can be told to the caller: an archive is
 * loaded whole or not at all. */
static int publish_all(struct load *l, struct err *e)
{
	cleanup_buf struct buf line = {0};

	buf_init(&line, WORKER_LINE_MAX - 1024);
	json_put_canonical(&line, l->results);
	if (buf_failed(&line))
		return err_set(e, ERR_LIMIT, 0, "its images' configurations are too large");
	for (size_t i = 0; i < l->made_len; i++) {
		const struct made *m = &l->made[i];
		uint64_t size;
		int r;
		if ((r = images_find(l->images, m->digest, &size, e)) < 0 ||
			(size == 0 && (r = images_publish(&l->workdir, m->file, m->digest, e)) < 0))
			return r;
	}
	return 0;
}

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)fd_close(fds[i]);
}

/* ---- OCI layout (image-spec image-layout.md) ---- */

static void blob_path(const char *digest, char ret[static 90])
{
	(void)snprintf(ret, 90, "blobs/sha256/%s", digest + strlen("sha256:"));
}

static int wrong_digest(const char *digest, struct err *e)
{
	return err_set(e, ERR_CORRUPT, 0, "its blob %s has another size or digest", digest);
}

static int get_document(struct documents *d, const struct descriptor *descriptor, bool is_config,
	struct buf *ret, struct err *e)
{
	struct load *l = (struct load *)d;
	char path[90], hex[SHA256_HEX_SIZE];

	blob_path(descriptor->digest, path);
	int r = files_read(
		&l->files, path, is_config ? CONFIG_BYTES_MAX : MANIFEST_BYTES_MAX, ret, e);
	if (r < 0)
		return r;
	sha256_hex_of(ret->data, ret->len, hex);
	if (ret->len != descriptor->size ||
		strcmp(hex, descriptor->digest + strlen("sha256:")) != 0)
		return wrong_digest(descriptor->digest, e);
	return 0;
}

static int open_layer(const struct load *l, const struct descriptor *d, struct err *e)
{
	struct descriptor found;
	char path[90];
	int r;

	blob_path(d->digest, path);
	cleanup_fd int fd = files_open_one(&l->files, path, e);
	if (fd < 0)
		return fd;
	if ((r = synthesis_layer(fd, &found, e)) < 0)
		return r;
	if (found.size != d->size || strcmp(found.digest, d->digest) != 0)
		return wrong_digest(d->digest, e);
	return fd_take(&fd);
}

/* Only a whole name is one: a tag alone ("latest"), which is all that some tools write, is not. */
static const char *whole_name(const struct descriptor *d, char *canonical)
{
	struct reference r;
	struct err ignored;

	if (!strpbrk(d->ref, ":/") || reference_parse(d->ref, &r, &ignored) < 0)
		return NULL;
	reference_canonical(&r, canonical);
	return canonical;
}

static int load_entry(struct load *l, const struct descriptor *entry, struct err *e)
{
	cleanup_image struct image image = {0};
	char canonical[REFERENCE_CANONICAL_SIZE];
	int layers[MANIFEST_LAYERS_MAX];
	uint64_t size;
	bool cached;
	size_t n = 0;
	int r = resolve_descriptor(&l->documents, entry, l->platform, &image, e);

	if (r < 0)
		return r;
	while (n < image.manifest.len) {
		r = open_layer(l, &image.manifest.descriptors[n], e);
		if (r < 0)
			break;
		layers[n++] = r;
	}
	if (r >= 0)
		r = make_image(l, image.digest, &image.config, layers, n, &size, &cached, e);
	close_all(layers, n);
	if (r < 0)
		return r;
	return add_result(l, &image, whole_name(entry, canonical), size, cached, e);
}

static int load_layout(struct load *l, struct err *e)
{
	cleanup_buf struct buf b = {0};
	cleanup_manifest struct manifest index = {0};
	struct err incompatible = {0};
	int r;

	if ((r = files_read(&l->files, "index.json", MANIFEST_BYTES_MAX, &b, e)) < 0 ||
		(r = manifest_parse(
			 b.data, b.len, "application/vnd.oci.image.index.v1+json", &index, e)) < 0)
		return r;
	if (index.kind != MANIFEST_INDEX)
		return err_set(e, ERR_INVALID, 0, "its index.json is not an index");
	for (size_t i = 0; i < index.len; i++) {
		const struct descriptor *d = &index.descriptors[i];
		if (d->attached)
			continue;
		r = load_entry(l, d, e);
		if (r < 0 && e->kind != ERR_INCOMPATIBLE)
			return r;
		if (r < 0 && incompatible.kind == ERR_NONE)
			incompatible = *e;
	}
	if (json_array_size(l->results) > 0)
		return 0;
	if (incompatible.kind == ERR_NONE)
		return err_set(e, ERR_NOT_FOUND, 0, "it holds no image");
	*e = incompatible;
	return err_code(e);
}

/* ---- docker-archive: manifest.json is [{"Config","RepoTags":[..],"Layers":[..]}] ---- */

/* Where the name of the configuration holds its digest, it must be right. */
static int check_config_name(const char *name, const struct buf *config, struct err *e)
{
	const char *base = strrchr(name, '/');
	char hex[SHA256_HEX_SIZE];

	base = base ? base + 1 : name;
	if (strspn(base, "0123456789abcdef") != SHA256_HEX_SIZE - 1)
		return 0;
	sha256_hex_of(config->data, config->len, hex);
	if (strncmp(base, hex, SHA256_HEX_SIZE - 1) != 0)
		return err_set(e, ERR_CORRUPT, 0, "the configuration %s has another digest", hex);
	return 0;
}

static int open_layers(const struct load *l, json_t *names, int *ret_fds,
	struct descriptor *ret_layers, size_t *ret_n, struct err *e)
{
	json_t *name;
	size_t i;

	json_array_foreach (names, i, name) {
		if (!json_is_string(name))
			return err_set(e, ERR_INVALID, 0, "\"Layers\" is not a list of names");
		int fd = files_open_one(&l->files, json_string_value(name), e);
		if (fd < 0)
			return fd;
		ret_fds[(*ret_n)++] = fd;
		int r = synthesis_layer(fd, &ret_layers[i], e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_results(struct load *l, const json_t *tags, const struct image *image, uint64_t size,
	bool cached, struct err *e)
{
	char canonical[REFERENCE_CANONICAL_SIZE];
	struct reference ref;
	json_t *tag;
	size_t i;
	int r;

	if (json_array_size(tags) == 0)
		return add_result(l, image, NULL, size, cached, e);
	json_array_foreach (tags, i, tag) {
		if (!json_is_string(tag))
			return err_set(e, ERR_INVALID, 0, "\"RepoTags\" is not a list of names");
		if ((r = reference_parse(json_string_value(tag), &ref, e)) < 0)
			return r;
		reference_canonical(&ref, canonical);
		if ((r = add_result(l, image, canonical, size, cached, e)) < 0)
			return r;
	}
	return 0;
}

static int load_opened(struct load *l, const json_t *item, const struct buf *b, const int *fds,
	const struct descriptor *layers, size_t n, struct err *e)
{
	cleanup_image struct image image = {0};
	uint64_t size;
	bool cached;
	int r;

	if ((r = image_config_parse(b->data, b->len, n, &image.config, e)) < 0 ||
		(r = image_config_check_platform(&image.config, l->platform, e)) < 0 ||
		(r = synthesis_digest(b->data, b->len, layers, n, image.digest, e)) < 0 ||
		(r = make_image(l, image.digest, &image.config, fds, n, &size, &cached, e)) < 0)
		return r;
	return add_results(l, json_object_get(item, "RepoTags"), &image, size, cached, e);
}

static int load_docker_image(struct load *l, const json_t *item, struct err *e)
{
	cleanup_buf struct buf config = {0};
	struct descriptor *layers = NULL;
	int fds[MANIFEST_LAYERS_MAX];
	json_t *names;
	const char *name;
	size_t n = 0;
	int r;

	if ((r = json_get_str(item, "Config", 1024, &name, e)) < 0 ||
		(r = json_get_array(item, "Layers", MANIFEST_LAYERS_MAX, &names, e)) < 0)
		return err_wrap(e, "its manifest.json");
	if ((r = files_read(&l->files, name, CONFIG_BYTES_MAX, &config, e)) < 0 ||
		(r = check_config_name(name, &config, e)) < 0)
		return r;
	layers = calloc(MANIFEST_LAYERS_MAX, sizeof(*layers));
	if (!layers)
		return err_errno(e, ENOMEM, "reading the image");
	r = open_layers(l, names, fds, layers, &n, e);
	if (r == 0 && n == 0)
		r = err_set(e, ERR_UNSUPPORTED, 0, "the image has no layers");
	if (r == 0)
		r = load_opened(l, item, &config, fds, layers, n, e);
	close_all(fds, n);
	free(layers);
	return r;
}

static int load_docker(struct load *l, struct err *e)
{
	cleanup_buf struct buf b = {0};
	json_t *item;
	size_t i;
	int r = files_read(&l->files, "manifest.json", MANIFEST_BYTES_MAX, &b, e);

	if (r < 0)
		return r;
	cleanup_json *list = json_loadb((const char *)b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_array(list) || json_array_size(list) == 0)
		return err_set(e, ERR_INVALID, 0, "its manifest.json is not a list of images");
	json_array_foreach (list, i, item)
		if ((r = load_docker_image(l, item, e)) < 0)
			return r;
	return 0;
}

static int load_files(struct load *l, struct err *e)
{
	if (files_has(&l->files, "index.json"))
		return load_layout(l, e);
	if (files_has(&l->files, "manifest.json"))
		return load_docker(l, e);
	(void)err_set(e, ERR_INVALID, 0,
		"it is not a saved image: neither index.json nor "
		"manifest.json is in it");
	return err_hint(e, "for a root file system: kosa8 image import");
}

int load_images(const char *path, const struct platform *p, const struct images *images,
	struct claim *claim, json_t **ret, struct err *e)
{
	struct load l = {.documents = {get_document},
		.images = images,
		.claim = claim,
		.platform = p,
		.workdir = WORKDIR_NONE,
		.files = {.dirfd = -1}};
	int r = workdir_open(images, NULL, &l.workdir, e);

	if (r < 0)
		return r;
	l.results = json_array();
	if ((r = files_open(path, &l.workdir, &l.files, e)) == 0) {
		r = load_files(&l, e);
		files_release(&l.files);
	}
	if (r == 0)
		r = publish_all(&l, e);
	workdir_remove(&l.workdir);
	if (r < 0) {
		json_decref(l.results);
		return e->kind == ERR_NO_SPACE
			       ? r
			       : err_wrap(
					 e, "%s", strcmp(path, "-") == 0 ? "standard input" : path);
	}
	*ret = json_pack("{s:b, s:o}", "ok", 1, "images", l.results);
	return *ret ? 0 : err_errno(e, ENOMEM, "the result");
}
