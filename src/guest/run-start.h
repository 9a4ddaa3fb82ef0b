/* SPDX-License-Identifier: Apache-2.0 */
/* RUN and EXEC: from the request to the child process. */
#ifndef KOSA8_GUEST_RUN_START_H
#define KOSA8_GUEST_RUN_START_H

#include "run.h"

/* The frames; they take what m holds. Refusals are sent as RUN_FAILED. */
void runs_start(struct runs *rs, uint32_t stream, struct agent_run *m);
void runs_exec(struct runs *rs, uint32_t stream, struct agent_exec *m);
/* An exec that waits: starts it when its container runs. 1: it did something. */
int run_waiting_step(struct runs *rs, struct run *r);
void run_send_failed(struct runs *rs, uint32_t stream, const struct err *e);
/* The child's ends of streams and report channel. */
struct run_ends {
	int stdio[3];
	int report[2];
};
/* What was opened is closed by run_ends_close(), whatever comes. */
int run_ends_open(struct runs *rs, struct run *r, struct run_ends *ret, struct err *e) must_check;
/* pid: what the start of the child returned; on failure e is its. Watches the reports. */
int run_ends_close(
	struct runs *rs, struct run *r, struct run_ends *ends, int pid, struct err *e) must_check;

#endif
