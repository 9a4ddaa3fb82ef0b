/* SPDX-License-Identifier: Apache-2.0 */
#include "images.h"

#include <errno.h>

#define LAYERS_MAX 4096 /* more are not shown */

int image_show(const struct context *c, const char *digest, json_t **ret_manifest,
	json_t **ret_config, struct err *e)
{
	cleanup_image_gots struct image_gots gots = {0};
	cleanup_image_worker struct image_worker w = {0};
	char *args[] = {"--", (char *)digest, NULL};
	struct image_work work = {.verb = "show", .args = args, .output = -1};
	json_t *manifest, *config;
	int r = image_worker_run(&w, c, &work, &gots, e);

	if (r < 0)
		return r;
	if ((r = json_get_object(gots.result, "manifest", &manifest, e)) < 0 ||
		(r = json_get_object(gots.result, "config", &config, e)) < 0)
		return r;
	*ret_manifest = json_incref(manifest);
	*ret_config = json_incref(config);
	return 0;
}

static json_t *string_or_null(const json_t *value)
{
	return json_is_string(value) ? json_incref((json_t *)value) : json_null();
}

json_t *image_layers(const json_t *manifest, const json_t *config)
{
	const json_t *layers = json_object_get(manifest, "layers");
	const json_t *ids = json_object_get(json_object_get(config, "rootfs"), "diff_ids");
	json_t *list = json_array();
	size_t n = json_array_size(layers);

	for (size_t i = 0; list && i < n && i < LAYERS_MAX; i++) {
		const json_t *layer = json_array_get(layers, i);
		const json_t *size = json_object_get(layer, "size");
		(void)json_array_append_new(list,
			json_pack("{s:o, s:o, s:o, s:o}", "digest",
				string_or_null(json_object_get(layer, "digest")), "size",
				json_is_integer(size) ? json_incref((json_t *)size) : json_null(),
				"media_type", string_or_null(json_object_get(layer, "mediaType")),
				"diff_id", string_or_null(json_array_get(ids, i))));
	}
	return list;
}
