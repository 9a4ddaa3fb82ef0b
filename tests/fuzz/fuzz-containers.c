/* SPDX-License-Identifier: Apache-2.0 */
/* The list of a sandbox's containers, as the command line reads it. */
#include "cli/containers.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct container *c)
{
	cleanup_json *o = container_json(c);
	cleanup_buf struct buf status = {0};

	buf_init(&status, 128);
	container_status(c, INT64_MAX, &status);
	buf_reset(&status);
	container_status(c, 0, &status);
	if (!o || buf_failed(&status) || status.len == 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_json *list = NULL;
	struct container c;
	struct err e;

	if (json_parse_object(data, size, "a list", &list, &e) < 0)
		return 0;
	for (size_t i = 0; i < containers_count(list); i++)
		if (container_decode(list, i, &c, &e) >= 0)
			use(&c);
	if (container_find(list, "0", &c, &e) > 0)
		use(&c);
	return 0;
}
