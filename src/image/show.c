/* SPDX-License-Identifier: Apache-2.0 */
#include "show.h"

#include "stored.h"
#include "worker.h"

#include <errno.h>

static bool fits(const json_t *result)
{
	cleanup_buf struct buf line = {0};

	buf_init(&line, WORKER_LINE_MAX - 1);
	json_put_canonical(&line, result);
	return !buf_failed(&line);
}

int show_image(const char *digest, const struct images *images, json_t **ret, struct err *e)
{
	cleanup_stored struct stored s = {0};
	cleanup_json *manifest = NULL;
	cleanup_json *config = NULL;
	int r;

	if ((r = stored_read(images, digest, &s, e)) < 0 ||
		(r = json_parse_object(s.manifest_bytes.data, s.manifest_bytes.len, "its manifest",
			 &manifest, e)) < 0 ||
		(r = json_parse_object(s.config_bytes.data, s.config_bytes.len,
			 "the image's configuration", &config, e)) < 0)
		return r;
	cleanup_json *o =
		json_pack("{s:b, s:O, s:O}", "ok", 1, "manifest", manifest, "config", config);
	if (!o)
		return err_errno(e, ENOMEM, "making the result");
	if (!fits(o))
		return err_set(e, ERR_LIMIT, 0,
			"its manifest and configuration together are over %u bytes",
			WORKER_LINE_MAX);
	*ret = json_incref(o);
	return 0;
}
