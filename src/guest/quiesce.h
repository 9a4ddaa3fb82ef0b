/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standing still for a checkpoint (proto/agent.h, "Quiescence").
 *
 *   RUNNING    a QUIESCE with a number above the last RESUME's goes to FREEZING
 *   FREEZING   no pipe is read, no frame is taken; output is flushed. All runs frozen, or
 *              QUIESCE_FREEZE_MS passed: the relay is told to stand still. A group that does not
 *              freeze in time is checkpointed all the same.
 *   RELAY      until the relay says that it does, which it does when the same time has passed at
 *              the latest, or QUIESCE_RELAY_MS later: QUIESCED is sent, STILL
 *   STILL      nothing is sent and no frame is taken until a RESUME ends it
 */
#ifndef KOSA8_GUEST_QUIESCE_H
#define KOSA8_GUEST_QUIESCE_H

#include "cgroup.h"
#include "loop.h"
#include "mux.h"
#include "relay.h"

#define QUIESCE_FREEZE_MS 100
#define QUIESCE_RELAY_MS 50

enum quiesce_state { QUIESCE_RUNNING, QUIESCE_FREEZING, QUIESCE_RELAY, QUIESCE_STILL };

struct quiesce {
	enum quiesce_state state;
	uint32_t number;       /* of the QUIESCE in progress */
	uint32_t last_resumed; /* of the last RESUME */
	int64_t deadline_ms;
	struct watch events; /* cgroup.events of all runs */
	struct cgroups *cgroups;
	struct relay *relay;
	bool relay_still;
};

int quiesce_init(struct quiesce *q, struct cgroups *cgroups, struct relay *relay, struct loop *loop,
	struct err *e) must_check;
void quiesce_begin(struct quiesce *q, uint32_t number);
void quiesce_relay_still(struct quiesce *q, uint32_t number);
/* Sends QUIESCED when it is time and both ports are flushed (the one of the connections as far as
 * the host reads in time). 1: it did something. */
int quiesce_step(struct quiesce *q, struct mux *m, const struct mux *net);
/* A RESUME came, with the number it carries; new_epoch ends the quiescence in any case, because the
 * QUIESCE was the old epoch's. Containers run again afterwards. True: it ended a quiescence. */
bool quiesce_resume(struct quiesce *q, uint32_t number, bool new_epoch);

static inline bool quiesce_is_running(const struct quiesce *q)
{
	return q->state == QUIESCE_RUNNING;
}

#endif
