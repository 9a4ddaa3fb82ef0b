/* SPDX-License-Identifier: Apache-2.0 */
/* Records of kept containers; what is taken must encode to the same bytes. */
#include "guest/container-state.h"

#include "guest/containers.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf b = {0};
	struct agent_container c;

	if (container_state_decode(data, size, &c) < 0)
		return 0;
	assert(container_id_is_valid(c.id) && container_name_is_valid(c.name));
	buf_init(&b, CONTAINER_STATE_MAX);
	container_state_encode(&b, &c);
	assert(!buf_failed(&b) && b.len == size && memcmp(b.data, data, size) == 0);
	return 0;
}
