/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte chooses the message; what decodes must encode to the same bytes again. */
#include "proto/agent.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ROUND_TRIP(name)                                               \
	do {                                                           \
		struct agent_##name m;                                 \
		if (agent_##name##_decode(&c, &m) == 0) {              \
			agent_##name##_encode(&b, &m);                 \
			same = !buf_failed(&b) && b.len == size - 1 && \
			       memcmp(b.data, data + 1, b.len) == 0;   \
		}                                                      \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf b = {0};
	struct cursor c;
	bool same = true;

	buf_init(&b, 1 << 20);
	if (size < 1)
		return 0;
	cursor_init(&c, data + 1, size - 1);
	switch (data[0] % 7) {
	case 0:
		ROUND_TRIP(hello);
		break;
	case 1:
		ROUND_TRIP(configure);
		break;
	case 2:
		ROUND_TRIP(attach);
		break;
	case 3:
		ROUND_TRIP(reply);
		break;
	case 4: {
		struct agent_run m;
		if (agent_run_decode(&c, &m) == 0) {
			agent_run_encode(&b, &m);
			same = !buf_failed(&b) && b.len == size - 1 &&
			       memcmp(b.data, data + 1, b.len) == 0;
			agent_run_release(&m);
		}
		break;
	}
	case 5:
		ROUND_TRIP(exit);
		break;
	default:
		ROUND_TRIP(window);
		break;
	}
	assert(same);
	return 0;
}
