/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sessions that look at containers and start nothing: LOGS, WAIT, LIST. All begin with
 * RUN_STARTED or RUN_FAILED; KILL and DETACH end them with RUN_EXIT, DETACHED, and nothing else.
 *
 *   LOGS   records as STDOUT within its window, one STDOUT_EOF; RUN_EXIT is EXITED, 0. It reads the
 *          log's files at its own pace, so the container is never held.
 *   WAIT   RUN_EXIT is the container's own
 *   LIST   a CONTAINER frame each, in the order of their creation, then RUN_EXIT, EXITED, 0
 */
#ifndef KOSA8_GUEST_SESSIONS_H
#define KOSA8_GUEST_SESSIONS_H

#include "../base/frame.h"
#include "containers.h"
#include "mux.h"

#define SESSIONS_MAX 128

struct session {
	enum agent_type kind; /* LOGS or WAIT */
	uint32_t stream;
	struct container_entry *container; /* pinned */
	struct container_log_reader reader;
	uint64_t since_ns;
	uint64_t seen; /* log_records when the end of the log was reached */
	bool follow;
	bool at_end;	 /* nothing more is written than was seen */
	bool live;	 /* LOG_LIVE was sent */
	struct buf data; /* records on their way */
	uint32_t window;
};

struct sessions {
	struct session list[SESSIONS_MAX];
	size_t len;
	struct mux *mux;
	struct containers *containers;
};

/* LOGS, WAIT, LIST. */
void sessions_start(struct sessions *ss, const struct frame *f);
bool sessions_find(const struct sessions *ss, uint32_t stream);
/* Any other frame. False: no session has this stream. */
bool sessions_frame(struct sessions *ss, const struct frame *f);
/* One bounded round; 1: there is more to do. */
int sessions_step(struct sessions *ss);
/* The epoch ended: they are gone, nothing is sent. */
void sessions_forget(struct sessions *ss);
/* SHUTDOWN: all end, so that the disk can be unmounted. */
void sessions_end_all(struct sessions *ss);

#endif
