/* SPDX-License-Identifier: Apache-2.0 */
/* image rm and prune. The rows go first: a file without a row is garbage for the next sweep, a row
 * without a file would be a broken image. */
#include "commands.h"

#include "images.h"
#include "output.h"

#include "../base/fd.h"
#include "../base/text.h"
#include "../store/image-sweep.h"

#include <errno.h>

/* name: canonical, or the digest. */
static int remove_image(const struct context *c, const char *name, bool *ret_deleted, struct err *e)
{
	struct image_sweep s = {.all = false};
	char digest[REFERENCE_DIGEST_SIZE];
	cleanup_fd int lock = image_lock(&c->home, e);
	int r = lock;

	if (r < 0 || (r = catalog_image_delete(c->catalog, name, ret_deleted, digest, e)) < 0)
		return r;
	return *ret_deleted ? image_sweep(c->catalog, &c->home, &s, e) : 0;
}

/* By name when it was found by that, so that only the name goes when there are others. */
static void name_to_remove(const struct image_row *row, const struct reference *ref,
	char ret[static REFERENCE_CANONICAL_SIZE])
{
	(void)snprintf(ret, REFERENCE_CANONICAL_SIZE, "%s", row->digest);
	if (*ref->registry)
		reference_canonical(ref, ret);
	for (char **known = row->refs; known && *known; known++)
		if (strcmp(*known, ret) == 0)
			return;
	(void)snprintf(ret, REFERENCE_CANONICAL_SIZE, "%s", row->digest);
}

static int rm_one(struct context *c, const char *text, struct err *e)
{
	cleanup_image_row struct image_row row = {0};
	struct reference ref;
	char name[REFERENCE_CANONICAL_SIZE];
	bool deleted = false;
	int r = image_find(c, text, &row, &ref, e);

	if (r < 0)
		return r;
	name_to_remove(&row, &ref, name);
	cleanup_json *bound = json_pack("{s:s}", "image", row.digest);
	cleanup_json *detail = json_pack("{s:s}", "image", text);
	struct action a = {.frees_space = true,
		.event = {.action = "image.rm", .bound = bound, .detail = detail}};
	if ((r = action_begin(c, &a, e)) < 0)
		return r;
	r = action_end(c, &a, remove_image(c, name, &deleted, e), e);
	if (r >= 0)
		output_line("%s %s", deleted ? "removed" : "untagged", text);
	return r;
}

int cmd_image_rm(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	int r = context_open(&c, e), status = 0;

	if (r < 0)
		return r;
	for (size_t i = 0; i < a->operands_len; i++) {
		struct err one;
		if (rm_one(&c, a->operands[i], &one) < 0) {
			output_error(&one);
			status = 1;
		}
	}
	return status;
}

static json_t *images_json(const struct image_rows *rows)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < rows->len; i++)
		(void)json_array_append_new(
			list, json_pack("{s:s, s:o}", "digest", rows->rows[i].digest, "refs",
				      json_from_strv(rows->rows[i].refs)));
	return list;
}

static int print_pruned(
	const struct image_rows *rows, const struct image_sweep *s, bool json, struct err *e)
{
	char freed[TEXT_SIZE_MAX];

	if (json)
		return output_json(
			json_pack("{s:o, s:I, s:I}", "images", images_json(rows), "removed_files",
				(json_int_t)s->removed, "freed_bytes", (json_int_t)s->freed_bytes),
			e);
	for (size_t i = 0; i < rows->len; i++) {
		const struct image_row *row = &rows->rows[i];
		output_line("removed %s", row->digest);
		for (char **ref = row->refs; ref && *ref; ref++)
			output_line("removed %s", *ref);
	}
	text_size(s->freed_bytes, freed);
	output_line("freed %s", freed);
	return 0;
}

static int prune(struct context *c, struct image_rows *ret, struct image_sweep *s, struct err *e)
{
	cleanup_fd int lock = image_lock(&c->home, e);
	int r = lock;

	if (r < 0 || (r = catalog_image_prune(c->catalog, ret, e)) < 0)
		return r;
	return image_sweep(c->catalog, &c->home, s, e);
}

int cmd_image_prune(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_image_rows struct image_rows rows = {0};
	struct image_sweep s = {.all = true};
	cleanup_json *bound = NULL;
	struct action act = {.frees_space = true, .event = {.action = "image.prune"}};
	int r = context_open(&c, e);

	if (r < 0 || (r = action_begin(&c, &act, e)) < 0)
		return r;
	r = prune(&c, &rows, &s, e);
	act.event.bound = bound = json_pack("{s:o}", "images", images_json(&rows));
	r = action_end(&c, &act, r, e);
	return r < 0 ? r : print_pruned(&rows, &s, args_on(a, "json"), e);
}
