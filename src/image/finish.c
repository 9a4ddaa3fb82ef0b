/* SPDX-License-Identifier: Apache-2.0 */
#include "finish.h"

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

json_t *finish_result(const char *digest, const char *ref, const struct image_config *config,
	uint64_t size, bool cached, struct err *e)
{
	json_t *o = json_pack("{s:b, s:s, s:s?, s:O, s:I, s:b}", "ok", 1, "digest", digest, "ref",
		ref, "config", config->reduced, "size", (json_int_t)size, "cached", cached);

	if (!o)
		(void)err_errno(e, ENOMEM, "making the result");
	return o;
}
