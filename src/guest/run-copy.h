/* SPDX-License-Identifier: Apache-2.0 */
/* COPY: from the request to the child process (copy.h). */
#ifndef KOSA8_GUEST_RUN_COPY_H
#define KOSA8_GUEST_RUN_COPY_H

#include "../proto/agent-files.h"
#include "run.h"

/* The frame. Refusals are sent as RUN_FAILED. */
void runs_copy(struct runs *rs, uint32_t stream, const struct agent_copy *m);

#endif
