/* SPDX-License-Identifier: Apache-2.0 */
#include "stored.h"

#include "blobs.h"
#include "config.h"

#include "../base/text.h"

void stored_release(struct stored *s)
{
	manifest_release(&s->manifest);
	buf_release(&s->manifest_bytes);
	buf_release(&s->config_bytes);
}

static int read_documents(const struct images *i, struct stored *s, struct err *e)
{
	cleanup_image_config struct image_config config = {0};
	struct manifest *m = &s->manifest;
	int r;

	if ((r = blobs_read(i, s->digest, MANIFEST_BYTES_MAX, &s->manifest_bytes, e)) < 0 ||
		(r = manifest_parse(s->manifest_bytes.data, s->manifest_bytes.len, NULL, m, e)) < 0)
		return r;
	if (m->kind != MANIFEST_IMAGE)
		return err_set(e, ERR_INVALID, 0, "it is an index, not an image");
	if ((r = blobs_read(i, m->config.digest, CONFIG_BYTES_MAX, &s->config_bytes, e)) < 0)
		return r;
	return image_config_parse(s->config_bytes.data, s->config_bytes.len, m->len, &config, e);
}

int stored_read(const struct images *i, const char *digest, struct stored *ret, struct err *e)
{
	cleanup_stored struct stored s = {0};
	char shown[100];

	if (!reference_is_digest(digest)) {
		text_escape(digest, shown, sizeof(shown));
		return err_set(e, ERR_INVALID, 0, "\"%s\" is not a digest", shown);
	}
	(void)snprintf(s.digest, sizeof(s.digest), "%s", digest);
	int r = read_documents(i, &s, e);
	if (r < 0) {
		if (e->kind == ERR_NOT_FOUND)
			(void)err_hint(e, "pull or load the image again");
		return r;
	}
	*ret = s;
	s = (struct stored){0};
	return 0;
}
