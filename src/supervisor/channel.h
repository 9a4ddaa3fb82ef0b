/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's end of the wire to the agent (proto/agent.h): frames in and out, requests and
 * their replies, the nonce that separates two epochs, and quiescence. Knows no sessions: their
 * frames are handed up. Everything that arrives is hostile.
 *
 * It is a link (link.h) on kosa8.mux, with the link's states: held are the frames sent before the
 * nonce of a new epoch was seen, and those after a QUIESCE until channel_resume().
 *
 * One step is channel_process(); it needs no event loop, so a test can drive it over a socketpair.
 */
#ifndef KOSA8_SUPERVISOR_CHANNEL_H
#define KOSA8_SUPERVISOR_CHANNEL_H

#include "../base/frame.h"
#include "../proto/agent.h"

#include <stdbool.h>

struct channel;

struct channel_events {
	/* The agent stands in the new epoch. */
	void (*resumed)(void *ctx);
	void (*quiesced)(void *ctx, uint32_t number);
	/* A frame of a session: RUN_STARTED .. RUN_EXIT, WINDOW, CONTAINER; and ENDED. May call any
	 * channel function but channel_free(). */
	void (*session_frame)(void *ctx, const struct frame *f);
	/* The channel cannot be used any more. Called once. */
	void (*broken)(void *ctx, const struct err *why);
};

/* fds: borrowed, non-blocking. NULL when out of memory. */
struct channel *channel_new(
	int mux_fd, int resume_fd, uint32_t epoch, const struct channel_events *events, void *ctx);
void channel_free(struct channel *ch);
/* Ends it: pending requests get their NULL now, nothing else is reported any more. */
void channel_abort(struct channel *ch);

/* After the VM was let run: from a saved state (new_epoch: nonce and resync) or from a pause. */
int channel_resume(struct channel *ch, bool new_epoch, struct err *e) must_check;
/* Of the newest epoch, for the other links (link_sync()); AGENT_NONCE_SIZE bytes. */
const unsigned char *channel_nonce(const struct channel *ch);
/* Asks for quiescence and holds further frames. Returns the number that QUIESCED will carry. */
uint32_t channel_quiesce(struct channel *ch);

/* Queues a frame. A full queue breaks the channel. */
void channel_send(
	struct channel *ch, uint16_t type, uint32_t stream, const void *payload, size_t len);
/* A number for a new session or request, never reused in this epoch. */
uint32_t channel_number(struct channel *ch);
/* Sends a request; reply is called once: with the agent's answer, its
 * text escaped, or with NULL when the channel
 * breaks or is freed. */
int channel_request(struct channel *ch, uint16_t type, const struct buf *payload,
	void (*reply)(void *ctx, const struct agent_reply *reply), void *ctx,
	struct err *e) must_check;

/* Reads and writes what is possible now. 1 progress, 0 idle, <0 broken. */
int channel_process(struct channel *ch);
bool channel_wants_write(const struct channel *ch);

#endif
