/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One port that carries frames to and from the agent: queues, and the nonce that separates two
 * epochs (proto/agent.h). kosa8.mux, kosa8.net and kosa8.fs are one each. Everything that arrives
 * is hostile.
 *
 *   SYNCING    input is discarded up to the nonce; ours went out; what is sent waits in `held`
 *   OPEN       all
 *   HELD       the guest stands still or is about to: what is sent waits in `held`
 *   BROKEN     nothing; the owner was told once
 */
#ifndef KOSA8_SUPERVISOR_LINK_H
#define KOSA8_SUPERVISOR_LINK_H

#include "../base/frame.h"
#include "../proto/agent.h"
#include "queue.h"

#include <stdbool.h>

enum link_state { LINK_SYNCING, LINK_OPEN, LINK_HELD, LINK_BROKEN };

struct link_events {
	/* A frame of this epoch; may call any link function but link_release(). <0: it breaks the
	 * protocol, e says how; the link is broken then. */
	int (*frame)(void *ctx, const struct frame *f, struct err *e);
	/* Called once. */
	void (*broken)(void *ctx, const struct err *why);
};

struct link {
	enum link_state state;
	bool hold; /* also while SYNCING: HELD follows instead of OPEN */
	int fd;	   /* borrowed, non-blocking */
	uint32_t epoch;
	unsigned char nonce[AGENT_NONCE_SIZE];
	struct buf in;
	struct queue out, held;
	struct link_events events;
	void *ctx;
};

void link_init(struct link *l, int fd, uint32_t epoch, size_t out_max_bytes,
	const struct link_events *events, void *ctx);
void link_release(struct link *l);
/* The VM was restored: the nonce goes out, and input is discarded up to it. -ENOBUFS */
int link_sync(struct link *l, const unsigned char nonce[AGENT_NONCE_SIZE]) must_check;
void link_hold(struct link *l);
/* What was held is queued. 0 or -ENOBUFS; SYNCING: OPEN will follow. */
int link_unhold(struct link *l) must_check;
/* Nothing is reported or sent any more. */
void link_abort(struct link *l);
/* Queues a frame. A full queue breaks the link. */
void link_send(struct link *l, uint16_t type, uint32_t stream, const void *payload, size_t len);
/* Bytes that wait to be sent. */
size_t link_queued(const struct link *l);
/* Reads and writes what is possible now. 1 progress, 0 idle, <0 broken. */
int link_process(struct link *l);
bool link_wants_write(const struct link *l);

#endif
