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
	struct image_pull p = {.text = a->operands[1], .box = &s};
	char digest[REFERENCE_DIGEST_SIZE];
	int r;

	image_pull_flags(a, &p);
	if ((r = context_open(&c, e)) < 0 || (r = sandbox_open(&c, a->operands[0], &s, e)) < 0)
		return r;
	if ((r = image_pull(&c, &p, digest, e)) < 0)
		return image_worker_status(r, e);
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
