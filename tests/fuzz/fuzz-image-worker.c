/* SPDX-License-Identifier: Apache-2.0 */
/* A line of kosa8-image's output, as the command line reads it. */
#include "cli/images.h"
#include "cli/progress.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image_gots gots = {0};
	struct progress p;
	struct err e;

	progress_init(&p, true);
	int r = image_worker_line((const char *)data, size, &p, &gots, &e);
	if (r < 0 && e.kind == ERR_NONE)
		abort();
	for (size_t i = 0; i < gots.len; i++)
		if (!reference_is_digest(gots.items[i].digest) || !gots.items[i].config)
			abort();
	image_gots_release(&gots);
	return 0;
}
