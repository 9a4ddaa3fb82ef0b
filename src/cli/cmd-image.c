/* SPDX-License-Identifier: Apache-2.0 */
/* image ls, pull and tag. */
#include "commands.h"

#include "images.h"
#include "output.h"

int cmd_image_ls(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_image_rows struct image_rows rows = {0};
	int r;

	if ((r = context_open(&c, e)) < 0 || (r = catalog_image_list(c.catalog, &rows, e)) < 0)
		return r;
	return image_rows_print(&rows, args_on(a, "json"), e);
}

int cmd_image_pull(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	char digest[REFERENCE_DIGEST_SIZE];
	struct image_pull p = {.text = a->operands[0]};
	int r = context_open(&c, e);

	image_pull_flags(a, &p);
	if (r < 0)
		return r;
	if ((r = image_pull(&c, &p, digest, e)) < 0)
		return image_worker_status(r, e);
	output_line("%s", digest);
	return 0;
}

int cmd_image_tag(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_image_row struct image_row row = {0};
	char canonical[REFERENCE_CANONICAL_SIZE];
	struct reference found, name;
	int r = reference_parse(a->operands[1], &name, e);

	if (r < 0)
		return r;
	if (*name.digest)
		return err_set(e, ERR_INVALID, 0, "a digest is not a name that can be given");
	reference_canonical(&name, canonical);
	if ((r = context_open(&c, e)) < 0 ||
		(r = image_find(&c, a->operands[0], &row, &found, e)) < 0)
		return r;
	cleanup_json *bound = json_pack("{s:s}", "image", row.digest);
	cleanup_json *detail = json_pack("{s:s, s:s}", "image", a->operands[0], "ref", canonical);
	struct action act = {.event = {.action = "image.tag", .bound = bound, .detail = detail}};
	if ((r = action_begin(&c, &act, e)) < 0)
		return r;
	r = catalog_image_tag(c.catalog, row.digest, canonical, e);
	return action_end(&c, &act, r, e);
}
