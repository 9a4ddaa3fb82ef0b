/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte chooses the message; what decodes must encode to the same bytes again. */
#include "proto/agent-files.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define KEEP(m) ((void)(m))
#define ROUND_TRIP(name, release)                                      \
	do {                                                           \
		struct agent_##name m;                                 \
		if (agent_##name##_decode(&c, &m) == 0) {              \
			agent_##name##_encode(&b, &m);                 \
			same = !buf_failed(&b) && b.len == size - 1 && \
			       memcmp(b.data, data + 1, b.len) == 0;   \
			release(&m);                                   \
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
	switch (data[0] % 17) {
	case 0:
		ROUND_TRIP(hello, KEEP);
		break;
	case 1:
		ROUND_TRIP(configure, KEEP);
		break;
	case 2:
		ROUND_TRIP(image, KEEP);
		break;
	case 3:
		ROUND_TRIP(reply, KEEP);
		break;
	case 4:
		ROUND_TRIP(run, agent_run_release);
		break;
	case 5:
		ROUND_TRIP(exit, KEEP);
		break;
	case 6:
		ROUND_TRIP(window, KEEP);
		break;
	case 7:
		ROUND_TRIP(ref, KEEP);
		break;
	case 8:
		ROUND_TRIP(size, KEEP);
		break;
	case 9:
		ROUND_TRIP(exec, agent_exec_release);
		break;
	case 10:
		ROUND_TRIP(attach, KEEP);
		break;
	case 11:
		ROUND_TRIP(logs, KEEP);
		break;
	case 12:
		ROUND_TRIP(signal, KEEP);
		break;
	case 13:
		ROUND_TRIP(remove, KEEP);
		break;
	case 14:
		ROUND_TRIP(copy, agent_copy_release);
		break;
	case 15:
		ROUND_TRIP(mount, agent_mount_release);
		break;
	default:
		ROUND_TRIP(container, KEEP);
		break;
	}
	assert(same);
	return 0;
}
