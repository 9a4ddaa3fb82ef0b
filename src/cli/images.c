/* SPDX-License-Identifier: Apache-2.0 */
#include "images.h"

#include "output.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/log.h"
#include "../base/strv.h"
#include "../base/text.h"
#include "../proto/images-dir.h"
#include "../store/image-sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX_MIN 6

static const char *hex_of(const char *digest)
{
	return digest + strlen("sha256:");
}

/* One file that the worker says is there. size UINT64_MAX: any. */
static int check_file(int dir, const char *name, uint64_t size, uint64_t *ret, struct err *e)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(e, errno, "kosa8-image left no file images/%.36s...", name);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_CORRUPT, 0, "images/%s is not a file", name);
	if (size != UINT64_MAX && (uint64_t)st.st_size != size)
		return err_set(e, ERR_CORRUPT, 0, "images/%.36s... does not have its size", name);
	*ret = (uint64_t)st.st_size;
	return 0;
}

int image_put(const struct context *c, const struct image_got *got, const char *ref, struct err *e)
{
	char name[REFERENCE_DIGEST_SIZE + sizeof(IMAGES_BLOBS)];
	uint64_t size, ignored;
	cleanup_fd int dirfd = home_images_dir(&c->home, e);
	int r = dirfd;

	if (r < 0)
		return r;
	(void)snprintf(name, sizeof(name), "%s" IMAGES_SUFFIX, hex_of(got->digest));
	r = check_file(dirfd, name, UINT64_MAX, &size, e);
	for (size_t i = 0; r >= 0 && i < got->blobs_len; i++) {
		(void)snprintf(
			name, sizeof(name), IMAGES_BLOBS "/%s", hex_of(got->blobs[i].digest));
		r = check_file(dirfd, name, got->blobs[i].size_bytes, &ignored, e);
	}
	if (r < 0)
		return r;
	struct image_new n = {.digest = got->digest,
		.config = got->config,
		.platform = got->platform,
		.ref = ref,
		.size_bytes = size,
		.blobs = got->blobs,
		.blobs_len = got->blobs_len};
	return catalog_image_put(c->catalog, &n, e);
}

void image_sweep_quietly(const struct context *c)
{
	struct image_sweep s = {.all = false};
	struct err e;
	cleanup_fd int lock = image_lock(&c->home, &e);

	if (lock < 0 || image_sweep(c->catalog, &c->home, &s, &e) < 0)
		log_warn("cleaning up: %s", e.what);
}

/* The hex digits of a digest or of its beginning; NULL: neither. */
static const char *prefix_of(const char *text)
{
	const char *hex = text_starts_with(text, "sha256:") ? hex_of(text) : text;
	size_t len = strlen(hex);

	return len >= PREFIX_MIN && len <= 64 && strspn(hex, "0123456789abcdef") == len ? hex
											: NULL;
}

static bool is_short_prefix(const char *text)
{
	return text_starts_with(text, "sha256:") && strlen(hex_of(text)) < PREFIX_MIN;
}

static int find_by_prefix(
	const struct context *c, const char *text, struct image_row *ret, struct err *e)
{
	char digest[REFERENCE_DIGEST_SIZE];
	const char *hex = prefix_of(text);
	int r = hex ? catalog_image_prefix(c->catalog, hex, digest, e)
		    : err_set(e, ERR_NOT_FOUND, 0, "not a digest");

	return r < 0 ? r : catalog_image_find(c->catalog, digest, ret, e);
}

static int find_by_name(const struct context *c, const char *text, struct image_row *ret,
	struct reference *ret_ref, struct err *e)
{
	char canonical[REFERENCE_CANONICAL_SIZE];
	struct err second;
	int r = reference_parse(text, ret_ref, e);

	if (r < 0)
		return r;
	reference_canonical(ret_ref, canonical);
	r = catalog_image_find(c->catalog, canonical, ret, e);
	if (r < 0 && e->kind == ERR_NOT_FOUND && *ret_ref->digest &&
		catalog_image_find(c->catalog, ret_ref->digest, ret, &second) >= 0)
		return 0;
	return r;
}

/* What was found by a bare name may be meant as the beginning of another image's digest. */
static int check_ambiguous(
	const struct context *c, const char *text, const struct image_row *row, struct err *e)
{
	char digest[REFERENCE_DIGEST_SIZE] = "several images' digests";
	struct err second;

	if (!prefix_of(text))
		return 0;
	if (catalog_image_prefix(c->catalog, text, digest, &second) < 0) {
		if (second.kind == ERR_NOT_FOUND)
			return 0;
		if (second.kind != ERR_INVALID) {
			*e = second;
			return err_code(e);
		}
	} else if (strcmp(digest, row->digest) == 0) {
		return 0;
	}
	(void)err_set(e, ERR_INVALID, 0, "%.64s is the name of an image and the beginning of %s",
		text, digest);
	return err_hint(
		e, "%.64s:latest for the name, or sha256:%.64s and more digits", text, text);
}

int image_find(const struct context *c, const char *text, struct image_row *ret,
	struct reference *ret_ref, struct err *e)
{
	struct reference ref = {0};
	struct err second;

	*ret_ref = ref;
	if (reference_is_digest(text))
		return catalog_image_find(c->catalog, text, ret, e);
	if (is_short_prefix(text))
		return err_set(e, ERR_INVALID, 0,
			"%.80s: the beginning of a digest has at least %d digits", text,
			PREFIX_MIN);
	int r = find_by_name(c, text, ret, &ref, e);
	if (r >= 0 && (r = check_ambiguous(c, text, ret, e)) < 0) {
		image_row_release(ret);
		*ret = (struct image_row){0};
		return r;
	}
	if (r >= 0 || (e->kind != ERR_NOT_FOUND && e->kind != ERR_INVALID)) {
		*ret_ref = ref;
		return r;
	}
	int by_prefix = find_by_prefix(c, text, ret, &second);
	if (by_prefix >= 0)
		return 0;
	if (second.kind != ERR_NOT_FOUND) {
		*e = second;
		return by_prefix;
	}
	if (e->kind == ERR_NOT_FOUND)
		*ret_ref = ref;
	else if (prefix_of(text)) /* no name could be meant */
		*e = second;
	return err_code(e);
}

int image_check_platform(const struct image_row *row, const char *text, struct err *e)
{
	const char *p = row->platform ? row->platform : "";

	if (strcmp(p, "linux/amd64") == 0 || text_starts_with(p, "linux/amd64/") ||
		strcmp(p, "linux/386") == 0)
		return 0;
	(void)err_set(e, ERR_INCOMPATIBLE, 0, "%.200s: the image is for %s only", text, p);
	return err_hint(e, "an image for linux/amd64, which is what this machine runs");
}

static json_t *rows_json(const struct image_rows *rows)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < rows->len; i++) {
		const struct image_row *row = &rows->rows[i];
		char created[CLOCK_RFC3339_SIZE];
		clock_rfc3339(row->created_ns, created);
		(void)json_array_append_new(
			list, json_pack("{s:s, s:o, s:s, s:I, s:I, s:s}", "digest", row->digest,
				      "refs", json_from_strv(row->refs), "platform", row->platform,
				      "size_bytes", (json_int_t)row->size_bytes, "blobs_bytes",
				      (json_int_t)row->blobs_bytes, "created", created));
	}
	return list;
}

static void add_rows(struct table *t, const struct image_row *row)
{
	char created[OUTPUT_TIME_SIZE], size[TEXT_SIZE_MAX], blobs[TEXT_SIZE_MAX], digest[20];
	char *none[] = {"<none>", NULL};

	output_time(row->created_ns, created);
	text_size(row->size_bytes, size);
	text_size(row->blobs_bytes, blobs);
	(void)snprintf(digest, sizeof(digest), "%.19s", row->digest);
	for (char **ref = row->refs && *row->refs ? row->refs : none; *ref; ref++) {
		const char *const cells[] = {*ref, digest, row->platform, size, blobs, created};
		table_row(t, SHADE_NONE, cells);
	}
}

int image_rows_print(const struct image_rows *rows, bool json, struct err *e)
{
	static const char *const headers[] = {
		"IMAGE", "DIGEST", "PLATFORM", "SIZE", "DOWNLOAD", "CREATED", NULL};
	cleanup_table struct table t = {0};

	if (json)
		return output_json(rows_json(rows), e);
	table_init(&t, headers, TABLE_COLUMNS_MAX);
	for (size_t i = 0; i < rows->len; i++)
		add_rows(&t, &rows->rows[i]);
	return table_print(&t, e);
}
