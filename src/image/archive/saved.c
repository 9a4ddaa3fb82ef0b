/* SPDX-License-Identifier: Apache-2.0 */
#include "saved.h"

#include "../stored.h"

#include "../../base/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OCI "application/vnd.oci.image."
#define ANNOTATION_NAME "io.containerd.image.name"
#define ANNOTATION_REF "org.opencontainers.image.ref.name"

void saved_release(struct saved *s)
{
	for (size_t i = 0; i < s->images_len; i++)
		manifest_release(&s->images[i].manifest);
	s->images_len = 0;
}

static int no_memory(struct err *e)
{
	return err_errno(e, ENOMEM, "making the archive's index");
}

/* ---- what is asked for ---- */

static int add_image(const struct images *i, struct saved *s, const char *digest, struct err *e)
{
	cleanup_stored struct stored stored = {0};
	cleanup_json *o = NULL;
	const char *type;
	int r;

	for (size_t k = 0; k < s->images_len; k++)
		if (strcmp(s->images[k].digest, digest) == 0)
			return 0;
	if (s->images_len == SAVED_IMAGES_MAX)
		return err_set(
			e, ERR_LIMIT, 0, "more than %d images in one archive", SAVED_IMAGES_MAX);
	if ((r = stored_read(i, digest, &stored, e)) < 0 ||
		(r = json_parse_object(stored.manifest_bytes.data, stored.manifest_bytes.len,
			 "its manifest", &o, e)) < 0 ||
		(r = json_get_str_or(o, "mediaType", MANIFEST_TYPE_SIZE - 1, OCI "manifest.v1+json",
			 &type, e)) < 0)
		return r;
	struct saved_image *image = &s->images[s->images_len++];
	*image = (struct saved_image){
		.size = stored.manifest_bytes.len, .manifest = stored.manifest};
	stored.manifest = (struct manifest){0};
	(void)snprintf(image->digest, sizeof(image->digest), "%s", digest);
	(void)snprintf(image->media_type, sizeof(image->media_type), "%s", type);
	return 0;
}

static int add_name(struct saved *s, const char *digest, const char *ref, struct err *e)
{
	struct reference parsed = {0};
	struct saved_name name = {0};
	int r;

	if (ref && (r = reference_parse(ref, &parsed, e)) < 0)
		return r;
	if (ref)
		reference_canonical(&parsed, name.canonical);
	(void)snprintf(name.digest, sizeof(name.digest), "%s", digest);
	(void)snprintf(name.tag, sizeof(name.tag), "%s", parsed.tag);
	for (size_t i = 0; i < s->names_len; i++) {
		const struct saved_name *other = &s->names[i];
		bool same = strcmp(other->digest, digest) == 0;
		if (strcmp(other->canonical, name.canonical) != 0 || (!ref && !same))
			continue;
		return same ? 0
			    : err_set(e, ERR_INVALID, 0, "%s is to name two images",
				      name.canonical);
	}
	if (s->names_len == SAVED_NAMES_MAX)
		return err_set(
			e, ERR_LIMIT, 0, "more than %d names in one archive", SAVED_NAMES_MAX);
	s->names[s->names_len++] = name;
	return 0;
}

static int compare_images(const void *a, const void *b)
{
	return strcmp(
		((const struct saved_image *)a)->digest, ((const struct saved_image *)b)->digest);
}

static int compare_names(const void *a, const void *b)
{
	const struct saved_name *x = a, *y = b;
	int r = strcmp(x->canonical, y->canonical);

	return r ? r : strcmp(x->digest, y->digest);
}

static bool has_name(const struct saved *s, const char *digest)
{
	for (size_t i = 0; i < s->names_len; i++)
		if (strcmp(s->names[i].digest, digest) == 0)
			return true;
	return false;
}

static int add_operand(const struct images *i, struct saved *s, const char *operand, struct err *e)
{
	const char *equals = strchr(operand, '=');
	size_t len = equals ? (size_t)(equals - operand) : strlen(operand);
	char digest[REFERENCE_DIGEST_SIZE] = "";

	if (len < sizeof(digest)) /* else it is none, and says so */
		memcpy(digest, operand, len);
	int r = add_image(i, s, len < sizeof(digest) ? digest : operand, e);
	return r < 0 || !equals ? r : add_name(s, digest, equals + 1, e);
}

int saved_read(
	const struct images *i, char *const *operands, size_t n, struct saved *ret, struct err *e)
{
	int r;

	for (size_t k = 0; k < n; k++)
		if ((r = add_operand(i, ret, operands[k], e)) < 0)
			return r;
	for (size_t k = 0; k < ret->images_len; k++)
		if (!has_name(ret, ret->images[k].digest) &&
			(r = add_name(ret, ret->images[k].digest, NULL, e)) < 0)
			return r;
	qsort(ret->images, ret->images_len, sizeof(ret->images[0]), compare_images);
	qsort(ret->names, ret->names_len, sizeof(ret->names[0]), compare_names);
	return 0;
}

/* ---- documents ---- */

static const struct saved_image *image_of(const struct saved *s, const char *digest)
{
	size_t i = 0;

	while (strcmp(s->images[i].digest, digest) != 0)
		i++;
	return &s->images[i];
}

static bool tag_is_unique(const struct saved *s, const struct saved_name *name)
{
	size_t n = 0;

	for (size_t i = 0; i < s->names_len; i++)
		n += strcmp(s->names[i].tag, name->tag) == 0;
	return name->tag[0] && n == 1;
}

static json_t *index_entry(const struct saved *s, const struct saved_name *name)
{
	const struct saved_image *image = image_of(s, name->digest);
	json_t *o = json_pack("{s:s, s:s, s:I}", "mediaType", image->media_type, "digest",
		image->digest, "size", (json_int_t)image->size);

	if (!name->canonical[0])
		return o;
	json_t *notes = json_pack("{s:s, s:s}", ANNOTATION_NAME, name->canonical, ANNOTATION_REF,
		tag_is_unique(s, name) ? name->tag : name->canonical);
	if (o && json_object_set_new(o, "annotations", notes) < 0) {
		json_decref(o);
		return NULL;
	}
	return o;
}

int saved_put_index(const struct saved *s, struct buf *ret, struct err *e)
{
	cleanup_json *o = json_pack("{s:i, s:s, s:[]}", "schemaVersion", 2, "mediaType",
		OCI "index.v1+json", "manifests");
	json_t *list = json_object_get(o, "manifests");

	buf_init(ret, MANIFEST_BYTES_MAX);
	for (size_t i = 0; i < s->names_len; i++)
		if (json_array_append_new(list, index_entry(s, &s->names[i])) < 0)
			return no_memory(e);
	if (!o)
		return no_memory(e);
	json_put_canonical(ret, o);
	return buf_failed(ret) ? no_memory(e) : 0;
}

static json_t *blob_name(const char *digest)
{
	return json_sprintf("blobs/sha256/%s", digest + strlen("sha256:"));
}

static json_t *docker_item(const struct saved *s, const struct saved_image *image)
{
	json_t *o = json_pack("{s:o, s:[], s:[]}", "Config",
		blob_name(image->manifest.config.digest), "RepoTags", "Layers");
	int r = o ? 0 : -1;

	for (size_t i = 0; i < s->names_len && r == 0; i++) {
		const struct saved_name *name = &s->names[i];
		if (name->tag[0] && strcmp(name->digest, image->digest) == 0)
			r = json_array_append_new(
				json_object_get(o, "RepoTags"), json_string(name->canonical));
	}
	for (size_t i = 0; i < image->manifest.len && r == 0; i++)
		r = json_array_append_new(json_object_get(o, "Layers"),
			blob_name(image->manifest.descriptors[i].digest));
	if (r == 0)
		return o;
	json_decref(o);
	return NULL;
}

int saved_put_docker_manifest(const struct saved *s, struct buf *ret, struct err *e)
{
	cleanup_json *list = json_array();

	buf_init(ret, MANIFEST_BYTES_MAX);
	for (size_t i = 0; i < s->images_len; i++)
		if (json_array_append_new(list, docker_item(s, &s->images[i])) < 0)
			return no_memory(e);
	if (!list)
		return no_memory(e);
	json_put_canonical(ret, list);
	return buf_failed(ret) ? no_memory(e) : 0;
}
