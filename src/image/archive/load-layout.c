/* SPDX-License-Identifier: Apache-2.0 */
/* OCI layouts (image-spec image-layout.md), also as containerd and docker write them. */
#include "load.h"

#include "../../base/fd.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static void blob_path(const char *digest, char ret[static 90])
{
	(void)snprintf(ret, 90, "blobs/sha256/%s", digest + strlen("sha256:"));
}

static int wrong_blob(const char *digest, struct err *e)
{
	return err_set(e, ERR_CORRUPT, 0, "its blob %s has another size or digest", digest);
}

/* What goes wrong with a blob's file, in words about the blob. */
static int blob_failed(const char *digest, struct err *e)
{
	if (e->kind == ERR_LIMIT)
		return wrong_blob(digest, e);
	if (e->kind != ERR_NOT_FOUND)
		return err_code(e);
	(void)err_set(e, ERR_NOT_FOUND, 0, "it holds no blob %s, which its index needs", digest);
	return err_hint(e, "it may hold the image for another --platform only");
}

static int check_blob(const struct member *m, const struct descriptor *d, struct err *e)
{
	if (m->content.size != d->size || strcmp(m->content.digest, d->digest) != 0)
		return wrong_blob(d->digest, e);
	return 0;
}

static int get_document(struct documents *d, const struct descriptor *descriptor, bool is_config,
	struct buf *ret, struct err *e)
{
	struct load *l = (struct load *)d;
	struct member m;
	char path[90];

	_Static_assert(offsetof(struct load, documents) == 0, "load is its documents");
	blob_path(descriptor->digest, path);
	int r = files_read(
		&l->files, path, is_config ? CONFIG_BYTES_MAX : MANIFEST_BYTES_MAX, ret, &m, e);
	if (r < 0)
		return e->kind == ERR_NOT_FOUND ? blob_failed(descriptor->digest, e) : r;
	return check_blob(&m, descriptor, e);
}

/* What is in the store already has the right digest; whether the manifest tells its size? */
static int check_kept(const struct load *l, const struct descriptor *d, struct err *e)
{
	uint64_t size;
	cleanup_fd int fd = keep_open(&l->keep, d->digest, &size, e);

	if (fd < 0)
		return fd;
	return size == d->size ? 0 : wrong_blob(d->digest, e);
}

static int keep_layer(struct load *l, const struct descriptor *d, struct err *e)
{
	struct member m;
	char path[90];
	int r = keep_wants(&l->keep, d->digest, e);

	if (r <= 0)
		return r < 0 ? r : check_kept(l, d, e);
	blob_path(d->digest, path);
	if ((r = files_member(&l->files, path, d->size, &m, e)) < 0)
		return blob_failed(d->digest, e);
	if ((r = check_blob(&m, d, e)) < 0)
		return r;
	keep_file(&l->keep, d->digest, m.file);
	return 0;
}

/* Only a whole name is one: a tag alone ("latest"), which is all that some tools write, is not. */
static const char *whole_name(const struct load *l, const struct descriptor *d,
	const struct load_image *made, char ret[static REFERENCE_CANONICAL_SIZE])
{
	return strpbrk(d->ref, ":/") ? load_name(l, made, d->ref, ret) : NULL;
}

/* Without a look at its blobs, which need not be there. */
static int check_platform(const struct descriptor *entry, const struct platform *p, struct err *e)
{
	struct descriptor copy = *entry;
	struct manifest one = {.kind = MANIFEST_INDEX, .descriptors = &copy, .len = 1};

	return manifest_choose(&one, p, 0) ? 0 : manifest_wrong_platform(&one, p, e);
}

/* Of several entries with one name, as one image for several platforms may be listed, only the one
 * that fits best is the image of that name. */
static bool is_best(const struct load *l, const struct manifest *index, const struct descriptor *d)
{
	struct manifest same = {.kind = MANIFEST_INDEX};
	bool best = true;

	if (!d->ref[0] || !d->platform.os[0])
		return true;
	same.descriptors = calloc(index->len, sizeof(*same.descriptors));
	if (!same.descriptors)
		return true;
	for (size_t i = 0; i < index->len; i++)
		if (strcmp(index->descriptors[i].ref, d->ref) == 0)
			same.descriptors[same.len++] = index->descriptors[i];
	const struct descriptor *chosen = manifest_choose(&same, l->platform, 0);
	if (chosen)
		best = strcmp(chosen->digest, d->digest) == 0;
	manifest_release(&same);
	return best;
}

static int load_entry(struct load *l, const struct descriptor *entry, struct err *e)
{
	cleanup_image struct image image = {0};
	char canonical[REFERENCE_CANONICAL_SIZE];
	const struct load_image *made;
	int r;

	if ((r = check_platform(entry, l->platform, e)) < 0 ||
		(r = resolve_descriptor(&l->documents, entry, l->platform, &image, e)) < 0 ||
		(r = finish_claim(l->claim, &image, e)) < 0)
		return r;
	for (size_t i = 0; i < image.manifest.len; i++)
		if ((r = keep_layer(l, &image.manifest.descriptors[i], e)) < 0)
			return r;
	if ((r = load_make(l, &image, &made, e)) < 0)
		return r;
	return load_add_name(l, made, whole_name(l, entry, made, canonical), e);
}

int load_layout(struct load *l, struct err *e)
{
	cleanup_buf struct buf b = {0};
	cleanup_manifest struct manifest index = {0};
	struct err incompatible = {0};
	size_t images = 0;
	int r;

	l->documents.get = get_document;
	if ((r = files_read(&l->files, "index.json", MANIFEST_BYTES_MAX, &b, NULL, e)) < 0)
		return r;
	if ((r = manifest_parse(
		     b.data, b.len, "application/vnd.oci.image.index.v1+json", &index, e)) < 0)
		return err_wrap(e, "index.json");
	if (index.kind != MANIFEST_INDEX)
		return err_set(e, ERR_INVALID, 0, "its index.json is not an index");
	for (size_t i = 0; i < index.len; i++)
		images += !index.descriptors[i].attached;
	for (size_t i = 0; i < index.len; i++) {
		const struct descriptor *d = &index.descriptors[i];
		if (d->attached || !is_best(l, &index, d))
			continue;
		r = load_entry(l, d, e);
		if (r < 0 && e->kind != ERR_INCOMPATIBLE)
			return load_blame(d->ref[0] ? d->ref : d->digest, images, e);
		if (r < 0)
			load_pass_over(l, d->ref, e, &incompatible);
	}
	if (json_array_size(l->results) > 0)
		return 0;
	if (incompatible.kind == ERR_NONE)
		return err_set(e, ERR_NOT_FOUND, 0, "it holds no image");
	*e = incompatible;
	return err_code(e);
}
