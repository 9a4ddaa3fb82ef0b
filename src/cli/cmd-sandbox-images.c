/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox pull and sandbox images. */
#include "commands.h"

#include "connect.h"
#include "images.h"
#include "output.h"

#include <errno.h>

static int attach(
	const struct context *c, const struct sandbox *s, const char *digest, struct err *e)
{
	cleanup_json *result = NULL;
	json_t *request = context_request(c, "attach");

	if (!request || json_object_set_new(request, "image", json_string(digest)) < 0) {
		json_decref(request);
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	}
	return supervisor_ask(s, request, -1, &result, e);
}

int cmd_sandbox_pull(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	struct reference ref;
	char digest[REFERENCE_DIGEST_SIZE];
	int r;

	if ((r = reference_parse(a->operands[1], &ref, e)) < 0 || (r = context_open(&c, e)) < 0 ||
		(r = sandbox_open(&c, a->operands[0], &s, e)) < 0 ||
		(r = image_pull(&c, &s, &ref, args_on(a, "quiet"), digest, e)) < 0)
		return r;
	if (s.state == LIVE_RUNNING && (r = attach(&c, &s, digest, e)) < 0)
		return r;
	output_line("%s", digest);
	return 0;
}

int cmd_sandbox_images(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	struct sandbox_row row = {0};
	struct image_rows rows = {0};
	int r;

	if ((r = context_open(&c, e)) < 0 ||
		(r = catalog_sandbox_find(c.catalog, a->operands[0], &row, e)) < 0)
		return r;
	r = catalog_sandbox_images(c.catalog, row.id, &rows, e);
	sandbox_row_release(&row);
	if (r < 0)
		return r;
	r = image_rows_print(&rows, args_on(a, "json"), e);
	image_rows_release(&rows);
	return r;
}
