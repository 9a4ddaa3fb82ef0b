/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standing still for a checkpoint (proto/agent.h, "Quiescence").
 *
 *   RUNNING    a QUIESCE with a number above the last RESUME's goes to FREEZING
 *   FREEZING   no pipe is read, no frame is taken; output is flushed. All runs frozen, or
 *              QUIESCE_FREEZE_MS passed: QUIESCED is sent, STILL. A group that does not freeze in
 *              time is checkpointed all the same.
 *   STILL      nothing is sent and no frame is taken until a RESUME ends it
 */
#ifndef KOSA8_GUEST_QUIESCE_H
#define KOSA8_GUEST_QUIESCE_H

#include "cgroup.h"
#include "loop.h"
#include "mux.h"

#define QUIESCE_FREEZE_MS 100

enum quiesce_state { QUIESCE_RUNNING, QUIESCE_FREEZING, QUIESCE_STILL };

struct quiesce {
	enum quiesce_state state;
	uint32_t number;       /* of the QUIESCE in progress */
	uint32_t last_resumed; /* of the last RESUME */
	int64_t deadline_ms;
	struct watch events; /* cgroup.events of all runs */
	struct cgroups *cgroups;
};

int quiesce_init(
	struct quiesce *q, struct cgroups *cgroups, struct loop *loop, struct err *e) must_check;
void quiesce_begin(struct quiesce *q, uint32_t number);
/* Sends QUIESCED when it is time. 1: it did something. */
int quiesce_step(struct quiesce *q, struct mux *m);
/* A RESUME came, with the number it carries; new_epoch ends the quiescence in any case, because the
 * QUIESCE was the old epoch's. Containers run again afterwards. */
void quiesce_resume(struct quiesce *q, uint32_t number, bool new_epoch);

static inline bool quiesce_is_running(const struct quiesce *q)
{
	return q->state == QUIESCE_RUNNING;
}

#endif
