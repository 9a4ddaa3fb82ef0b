/* SPDX-License-Identifier: Apache-2.0 */
/* image ls, rm, load and import. */
#include "commands.h"

#include "images.h"
#include "output.h"

#include "../base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int cmd_image_ls(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	struct image_rows rows = {0};
	int r;

	if ((r = context_open(&c, e)) < 0 || (r = catalog_image_list(c.catalog, &rows, e)) < 0)
		return r;
	r = image_rows_print(&rows, args_on(a, "json"), e);
	image_rows_release(&rows);
	return r;
}

static int remove_file(const struct context *c, const char *digest, struct err *e)
{
	char name[REFERENCE_DIGEST_SIZE];
	cleanup_fd int dir = home_images_dir(&c->home, e);

	if (dir < 0)
		return dir;
	(void)snprintf(name, sizeof(name), "%s.sqfs", strchr(digest, ':') + 1);
	if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
		return err_errno(e, errno, "cannot remove images/%s", name);
	return 0;
}

static int rm_one(struct context *c, const char *text, struct err *e)
{
	struct image_row row = {0};
	struct reference ref;
	char digest[72], canonical[REFERENCE_CANONICAL_SIZE];
	bool deleted = false;
	int r = image_find(c, text, &row, &ref, e);

	if (r < 0)
		return r;
	if (*ref.registry)
		reference_canonical(&ref, canonical);
	cleanup_json *bound = json_pack("{s:s}", "image", row.digest);
	cleanup_json *detail = json_pack("{s:s}", "image", text);
	image_row_release(&row);
	struct action a = {.event = {.action = "image.rm", .bound = bound, .detail = detail}};
	if ((r = action_begin(c, &a, e)) < 0)
		return r;
	r = catalog_image_delete(c->catalog, *ref.registry ? canonical : text, &deleted, digest, e);
	/* The row first: a file without a row is garbage, a row without a file is a broken image.
	 */
	if (r >= 0 && deleted)
		r = remove_file(c, digest, e);
	return action_end(c, &a, r, e);
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
		} else {
			output_line("%s", a->operands[i]);
		}
	}
	return status;
}

/* The worker's file argument; a clear error now is better than one from the worker. */
static int check_file(const char *file, struct err *e)
{
	struct stat st;

	if (strcmp(file, "-") == 0) {
		if (!isatty(STDIN_FILENO))
			return 0;
		return err_set(e, ERR_USAGE, 0, "- is stdin, and stdin is a terminal");
	}
	if (stat(file, &st) < 0)
		return err_errno(e, errno, "cannot read %s", file);
	if (S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, EISDIR, "%s is a folder, not a tar file", file);
	return 0;
}

/* The name in an archive is what somebody else wrote: only what parses is used. */
static const char *checked_ref(const char *ref, char ret[static REFERENCE_CANONICAL_SIZE])
{
	struct reference parsed;
	struct err e;

	if (!ref)
		return NULL;
	if (reference_parse(ref, &parsed, &e) < 0) {
		output_notice("kosa8: image load: the name %.200s is ignored: %s", ref, e.what);
		return NULL;
	}
	reference_canonical(&parsed, ret);
	return ret;
}

static int put_all(const struct context *c, const struct image_gots *gots, const char *name,
	json_t *digests, struct err *e)
{
	char canonical[REFERENCE_CANONICAL_SIZE];

	if (gots->len == 0)
		return err_set(e, ERR_INVALID, 0, "there is no image in it");
	for (size_t i = 0; i < gots->len; i++) {
		const struct image_got *got = &gots->items[i];
		const char *ref = checked_ref(name ? name : got->ref, canonical);
		int r = image_put(c, got, ref, e);
		if (r < 0)
			return r;
		(void)json_array_append_new(digests, json_string(got->digest));
		output_line(
			"%s%s%s", got->digest, ref && !name ? "  " : "", ref && !name ? ref : "");
	}
	return 0;
}

/* verb: "load" or "import", the latter with the image's name. */
static int add_images(const struct args *a, const char *verb, const char *name, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_image_gots struct image_gots gots = {0};
	const char *file = a->operands[0];
	char action[32];
	int r;

	if ((r = check_file(file, e)) < 0 || (r = context_open(&c, e)) < 0)
		return r;
	(void)snprintf(action, sizeof(action), "image.%s", verb);
	cleanup_json *detail = json_pack("{s:s, s:s*}", "file", file, "ref", name);
	cleanup_json *bound = json_object(), *digests = json_array();
	struct action act = {.event = {.action = action, .detail = detail}};
	if ((r = action_begin(&c, &act, e)) < 0)
		return r;
	r = image_worker_run(&c, verb, file, args_on(a, "quiet"), &gots, e);
	if (r >= 0)
		r = put_all(&c, &gots, name, digests, e);
	if (json_array_size(digests) == 1)
		(void)json_object_set(bound, "image", json_array_get(digests, 0));
	else if (json_array_size(digests) > 1)
		(void)json_object_set(bound, "images", digests);
	act.event.bound = bound;
	return action_end(&c, &act, r, e);
}

int cmd_image_load(const struct args *a, struct err *e)
{
	return add_images(a, "load", NULL, e);
}

int cmd_image_import(const struct args *a, struct err *e)
{
	char canonical[REFERENCE_CANONICAL_SIZE];
	struct reference ref;
	int r = reference_parse(a->operands[1], &ref, e);

	if (r < 0)
		return r;
	if (*ref.digest)
		return err_set(e, ERR_INVALID, 0, "an imported image cannot be named by a digest");
	reference_canonical(&ref, canonical);
	return add_images(a, "import", canonical, e);
}
