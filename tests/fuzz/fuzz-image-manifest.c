/* SPDX-License-Identifier: Apache-2.0 */
#include "image/config.h"
#include "image/manifest.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Manifests, indexes and configurations, told apart by their content. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_manifest struct manifest m = {0};
	cleanup_image_config struct image_config c = {0};
	struct platform p = {"linux", "amd64", ""};
	struct err e = {0};

	if (manifest_parse(data, size, NULL, &m, &e) == 0) {
		for (size_t i = 0; i < m.len; i++)
			assert(reference_is_digest(m.descriptors[i].digest));
		if (m.kind == MANIFEST_INDEX) {
			size_t skip = 0;
			while (manifest_choose(&m, &p, skip))
				skip++;
			assert(skip <= m.len);
			(void)manifest_wrong_platform(&m, &p, &e);
		}
	}
	if (image_config_parse(data, size, 1, &c, &e) == 0)
		assert(reference_is_digest(image_config_diff_id(&c, 0)));
	return 0;
}
