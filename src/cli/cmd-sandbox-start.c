/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include "connect.h"
#include "output.h"
#include "start.h"

#include "../base/clock.h"

#define READY_MS 60000

int cmd_sandbox_start(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	cleanup_json *status = NULL;
	int r;

	if ((r = context_open(&c, e)) < 0 || (r = sandbox_open(&c, a->operands[0], &s, e)) < 0)
		return r;
	switch (s.state) {
	case LIVE_STOPPED:
	case LIVE_CRASHED:
		return sandbox_start(&c, &s, NULL, e);
	case LIVE_RUNNING:
		/* Another command may be starting it: its answer says that it is ready. */
		r = supervisor_ask(
			&s, context_request(&c, "status"), clock_mono_ms() + READY_MS, &status, e);
		if (r >= 0)
			output_notice("%s is running already", s.row.name);
		return r;
	case LIVE_CREATING:
	case LIVE_BUSY:
	case LIVE_REMOVING:
	case LIVE_STATE_COUNT:
		break;
	}
	return sandbox_require_running(&s, e);
}
