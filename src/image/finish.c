/* SPDX-License-Identifier: Apache-2.0 */
#include "finish.h"

#include "blobs.h"

#include <errno.h>
#include <string.h>

int finish_check_diff_ids(const struct image_config *config, const json_t *diff_ids, struct err *e)
{
	const char *want;
	size_t i = 0;

	for (; (want = image_config_diff_id(config, i)); i++) {
		const char *got = json_string_value(json_array_get(diff_ids, i));
		if (!got || strcmp(got, want) != 0)
			return err_set(e, ERR_CORRUPT, 0,
				"layer %zu is not the one that the image's configuration names "
				"(its content has the digest %.80s)",
				i + 1, got ? got : "none");
	}
	if (json_array_size(diff_ids) != i)
		return err_set(e, ERR_CORRUPT, 0,
			"the image's configuration names %zu layers of %zu", i,
			json_array_size(diff_ids));
	return 0;
}

#define PARTS_MAX (IMAGE_DOCUMENTS_MAX + MANIFEST_LAYERS_MAX)

struct part {
	const char *digest;
	uint64_t size;
};

/* Documents and layers, each once. */
static size_t list_parts(const struct image *image, struct part ret[static PARTS_MAX])
{
	const struct manifest *m = &image->manifest;
	size_t n = 0;

	for (size_t i = 0; i < image->documents_len + m->len; i++) {
		struct part part;
		size_t same = 0;
		if (i < image->documents_len) {
			const struct document *d = &image->documents[i];
			part = (struct part){d->digest, d->bytes.len};
		} else {
			const struct descriptor *d = &m->descriptors[i - image->documents_len];
			part = (struct part){d->digest, d->size};
		}
		while (same < n && strcmp(ret[same].digest, part.digest) != 0)
			same++;
		ret[same] = part;
		n += same == n;
	}
	return n;
}

static size_t list_digests(const struct image *image, const char *ret[static PARTS_MAX])
{
	struct part parts[PARTS_MAX];
	size_t n = list_parts(image, parts);

	for (size_t i = 0; i < n; i++)
		ret[i] = parts[i].digest;
	return n;
}

int finish_claim(struct claim *c, const struct image *image, struct err *e)
{
	const char *digests[PARTS_MAX];
	size_t n = list_digests(image, digests);

	return claim_add(c, digests, n, e);
}

int finish_keep(const struct images *i, const struct image *image, struct err *e)
{
	const char *digests[PARTS_MAX];
	size_t n = list_digests(image, digests);

	for (size_t k = 0; k < image->documents_len; k++) {
		const struct document *d = &image->documents[k];
		int r = blobs_put(i, d->digest, d->bytes.data, d->bytes.len, e);
		if (r < 0)
			return r;
	}
	return blobs_sync(i, digests, n, e);
}

static json_t *blobs_of(const struct image *image)
{
	struct part parts[PARTS_MAX];
	size_t n = list_parts(image, parts);
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *o = json_pack(
			"{s:s, s:I}", "digest", parts[i].digest, "size", (json_int_t)parts[i].size);
		if (json_array_append_new(list, o) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

json_t *finish_result(
	const struct image *image, const char *ref, uint64_t size, bool cached, struct err *e)
{
	json_t *o = json_pack("{s:b, s:s, s:s?, s:O, s:I, s:b, s:o}", "ok", 1, "digest",
		image->digest, "ref", ref, "config", image->config.reduced, "size",
		(json_int_t)size, "cached", cached, "blobs", blobs_of(image));

	if (!o)
		(void)err_errno(e, ENOMEM, "making the result");
	return o;
}
