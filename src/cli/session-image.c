/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include "images.h"

#include "../base/text.h"

#include <errno.h>
#include <string.h>

#define IMAGE_NAME_MAX 255

/* An image of the catalog counts as used by the sandbox from its first run there. */
static int note_use(
	const struct context *c, const struct sandbox *s, const char *digest, struct err *e)
{
	struct image_rows rows = {0};
	bool known = false;
	int r = catalog_sandbox_images(c->catalog, s->row.id, &rows, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < rows.len; i++)
		known = known || strcmp(rows.rows[i].digest, digest) == 0;
	image_rows_release(&rows);
	return known ? 0 : catalog_sandbox_image_add(c->catalog, s->row.id, digest, e);
}

static int pull(struct context *c, const struct sandbox *s, const char *text, bool quiet,
	char ret_digest[static REFERENCE_DIGEST_SIZE], struct err *e)
{
	struct image_pull p = {.text = text,
		.box = s,
		.quiet = quiet,
		.progress = quiet ? PROGRESS_NONE : PROGRESS_TERMINAL};

	return image_pull(c, &p, ret_digest, e);
}

static int find_or_pull(struct context *c, const struct sandbox *s, const char *text, bool quiet,
	char ret_digest[static REFERENCE_DIGEST_SIZE], struct err *e)
{
	cleanup_image_row struct image_row row = {0};
	struct reference ref;
	int r = image_find(c, text, &row, &ref, e);

	if (r >= 0 && (r = image_check_platform(&row, text, e)) >= 0)
		r = note_use(c, s, row.digest, e);
	if (r >= 0)
		memcpy(ret_digest, row.digest, REFERENCE_DIGEST_SIZE);
	/* Not here, or it has gone meanwhile. */
	if (r < 0 && e->kind == ERR_NOT_FOUND && *ref.registry)
		return pull(c, s, text, quiet, ret_digest, e);
	return r;
}

int session_run_image(struct context *c, const struct sandbox *s, const char *image, bool quiet,
	struct client_run *run, const struct stream_options *o, struct err *e)
{
	char digest[REFERENCE_DIGEST_SIZE];
	int r = find_or_pull(c, s, image, quiet, digest, e);
	size_t len = strlen(image);

	if (r < 0)
		return image_worker_status(r, e);
	run->image = digest;
	if (len <= IMAGE_NAME_MAX && text_is_utf8(image, len))
		run->image_name = image;
	cleanup_json *request = context_request(c, "run");
	if (!request || client_run_encode(run, request) < 0)
		r = err_set(e, ERR_IO, ENOMEM, "out of memory");
	else
		r = session_run(s, request, o, e);
	run->image = NULL;
	return r;
}
