/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHUTDOWN, step by step:
 *
 *   TERM      every program got SIGTERM; until all runs are over or STOP_GRACE_MS passed
 *   KILL      what is left was killed; until all are gone or STOP_KILL_MS passed
 *   MOUNTS    the host's folders are written back and unmounted; bounded by their own limits
 *   REPLIED   the disk is unmounted (or, if it cannot be, synced) and the reply is on its way;
 *             when it is out, the machine is switched off
 */
#ifndef KOSA8_GUEST_STOP_H
#define KOSA8_GUEST_STOP_H

#include "disk.h"
#include "fs-mounts.h"
#include "keeper.h"
#include "mux.h"
#include "run.h"
#include "sessions.h"

#define STOP_GRACE_MS 2000
#define STOP_KILL_MS 5000

enum stop_state { STOP_NONE, STOP_TERM, STOP_KILL, STOP_MOUNTS, STOP_REPLIED };

struct stop {
	enum stop_state state;
	uint32_t stream;
	int64_t deadline_ms;
};

/* Once. */
void stop_begin(struct stop *s, uint32_t stream, struct runs *runs);
/* One step; does not return when the machine is switched off. */
void stop_step(struct stop *s, struct runs *runs, struct sessions *sessions,
	struct fs_mounts *mounts, struct disk *disk, struct keeper *keeper, struct mux *mux);
int64_t stop_deadline_ms(const struct stop *s);

#endif
