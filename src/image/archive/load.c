/* SPDX-License-Identifier: Apache-2.0 */
#include "load.h"

#include "../convert.h"
#include "../worker.h"

#include "../../base/fd.h"
#include "../../base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static int open_layers(
	const struct load *l, const struct manifest *m, int *ret_fds, size_t *ret_n, struct err *e)
{
	for (; *ret_n < m->len; (*ret_n)++) {
		const struct descriptor *d = &m->descriptors[*ret_n];
		uint64_t size;
		int fd = keep_open(&l->keep, d->digest, &size, e);
		if (fd < 0)
			return fd;
		ret_fds[*ret_n] = fd;
	}
	return 0;
}

/* Under a name of its own in the work folder, published with all others at the end. */
static int convert(struct load *l, struct load_image *m, struct err *e)
{
	cleanup_converted struct converted made = {0};
	int layers[MANIFEST_LAYERS_MAX];
	size_t n = 0;
	int r = open_layers(l, &m->image.manifest, layers, &n, e);

	if (r == 0)
		r = convert_layers(&l->workdir, CONVERT_LOAD, layers, n, &made, e);
	while (n > 0)
		(void)fd_close(layers[--n]);
	if (r < 0 || (r = finish_check_diff_ids(&m->image.config, made.diff_ids, e)) < 0)
		return r;
	(void)snprintf(m->file, sizeof(m->file), "made-%zu", l->made_len);
	m->size = made.size;
	if (renameat(l->workdir.fd, CONVERT_FILE, l->workdir.fd, m->file) < 0)
		return images_write_error(l->images, errno, "the image", e);
	return 0;
}

static int check_limits(struct load *l, const struct image *image, struct err *e)
{
	if (l->made_len == LOAD_IMAGES_MAX)
		return err_set(e, ERR_LIMIT, 0, "it holds more than %d images", LOAD_IMAGES_MAX);
	for (size_t i = 0; i < image->documents_len; i++)
		l->documents_bytes += image->documents[i].bytes.len;
	if (l->documents_bytes > LOAD_DOCUMENTS_BYTES_MAX)
		return err_set(e, ERR_LIMIT, 0,
			"its manifests and configurations hold more than %u bytes",
			LOAD_DOCUMENTS_BYTES_MAX);
	return 0;
}

int load_make(struct load *l, struct image *image, const struct load_image **ret, struct err *e)
{
	struct load_image *m = &l->made[l->made_len];
	int r;

	for (size_t i = 0; i < l->made_len; i++)
		if (strcmp(l->made[i].image.digest, image->digest) == 0) {
			*ret = &l->made[i];
			return 0;
		}
	if ((r = check_limits(l, image, e)) < 0)
		return r;
	*m = (struct load_image){.image = *image};
	*image = (struct image){0};
	if ((r = images_find(l->images, m->image.digest, &m->size, e)) < 0 ||
		(m->size == 0 && (r = convert(l, m, e)) < 0)) {
		image_release(&m->image);
		return r;
	}
	l->made_len++;
	*ret = m;
	return 0;
}

/* An index may name one image several times in the same way. */
static bool is_listed(const struct load *l, const char *digest, const char *canonical)
{
	json_t *o;
	size_t i;

	json_array_foreach (l->results, i, o) {
		const char *ref = json_string_value(json_object_get(o, "ref"));
		if (strcmp(json_string_value(json_object_get(o, "digest")), digest) == 0 &&
			(ref && canonical ? strcmp(ref, canonical) == 0 : ref == canonical))
			return true;
	}
	return false;
}

int load_add_name(
	struct load *l, const struct load_image *made, const char *canonical, struct err *e)
{
	if (is_listed(l, made->image.digest, canonical))
		return 0;
	if (json_array_size(l->results) >= LOAD_NAMES_MAX)
		return err_set(e, ERR_LIMIT, 0, "it holds more than %d names", LOAD_NAMES_MAX);
	json_t *o = finish_result(&made->image, canonical, made->size, made->file[0] == '\0', e);
	if (!o)
		return err_code(e);
	return json_array_append_new(l->results, o) < 0 ? err_errno(e, ENOMEM, "the result") : 0;
}

/* An archive's word does not make an image the one of a digest; its own digest names it anyway. */
static bool may_name(const struct reference *r, const char *digest, const char **ret_why)
{
	*ret_why = "an archive cannot give an image another's digest";
	return !*r->digest || strcmp(r->digest, digest) == 0;
}

const char *load_name(const struct load *l, const struct load_image *made, const char *written,
	char ret[static REFERENCE_CANONICAL_SIZE])
{
	struct reference r;
	struct err e;
	const char *why = e.what;

	if (strcmp(written, "<none>:<none>") == 0) /* docker's way to say so */
		return NULL;
	if (reference_parse(written, &r, &e) < 0 || !may_name(&r, made->image.digest, &why)) {
		output_notice(l->images->output, "the name %.300s is ignored: %s", written, why);
		return NULL;
	}
	r.digest[0] = '\0';
	if (!*r.tag)
		return NULL;
	reference_canonical(&r, ret);
	return ret;
}

void load_pass_over(struct load *l, const char *name, const struct err *why, struct err *first)
{
	output_notice(l->images->output, "passed over%s%.500s: %s", name && *name ? " " : "",
		name ? name : "", why->what);
	if (first->kind == ERR_NONE)
		*first = *why;
}

int load_blame(const char *name, size_t images, struct err *e)
{
	if (images < 2 || e->kind == ERR_NO_SPACE)
		return err_code(e);
	return err_wrap(e, "image %.100s", name);
}

/* Only when all that the archive holds was made, and can be told to the caller. */
static int publish_all(struct load *l, struct err *e)
{
	cleanup_buf struct buf line = {0};
	int r;

	buf_init(&line, WORKER_LINE_MAX - 1024);
	json_put_canonical(&line, l->results);
	if (buf_failed(&line))
		return err_set(e, ERR_LIMIT, 0, "its images' configurations are too large");
	if ((r = keep_publish(&l->keep, e)) < 0)
		return r;
	for (size_t i = 0; i < l->made_len; i++)
		if ((r = finish_keep(l->images, &l->made[i].image, e)) < 0)
			return r;
	for (size_t i = 0; i < l->made_len; i++) {
		const struct load_image *m = &l->made[i];
		if (m->file[0] &&
			(r = images_publish(&l->workdir, m->file, m->image.digest, e)) < 0)
			return r;
	}
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

static int load_from(struct load *l, const char *path, struct err *e)
{
	int r;

	l->results = json_array();
	if (!l->results)
		return err_errno(e, ENOMEM, "the result");
	if ((r = convert_check(e)) < 0 || (r = workdir_open(l->images, NULL, &l->workdir, e)) < 0 ||
		(r = files_open(path, &l->workdir, &l->files, e)) < 0 || (r = load_files(l, e)) < 0)
		return r;
	return publish_all(l, e);
}

static void load_release(struct load *l)
{
	for (size_t i = 0; i < l->made_len; i++)
		image_release(&l->made[i].image);
	keep_release(&l->keep);
	files_release(&l->files);
	workdir_remove(&l->workdir);
	json_decref(l->results);
}

int load_images(const char *path, const struct platform *p, const struct images *images,
	struct claim *claim, json_t **ret, struct err *e)
{
	struct load *l = calloc(1, sizeof(*l));

	if (!l)
		return err_errno(e, ENOMEM, "%s", path);
	l->images = images;
	l->claim = claim;
	l->platform = p;
	l->workdir = (struct workdir)WORKDIR_NONE;
	l->files = (struct files)FILES_NONE;
	l->keep.workdir = &l->workdir;
	int r = load_from(l, path, e);
	if (r < 0 && e->kind == ERR_INCOMPATIBLE)
		r = err_hint(
			e, "kosa8 image load --platform OS/ARCH, to keep it; it cannot run here");
	if (r < 0 && e->kind != ERR_NO_SPACE)
		r = err_wrap(e, "%s", strcmp(path, "-") == 0 ? "standard input" : path);
	if (r == 0) {
		*ret = json_pack("{s:b, s:O}", "ok", 1, "images", l->results);
		r = *ret ? 0 : err_errno(e, ENOMEM, "the result");
	}
	load_release(l);
	free(l);
	return r;
}
