/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's end of the kosa8.mux port: whole frames in and out, bounded on both sides, and the
 * change of epoch (proto/agent.h, theory of operation).
 *
 * Input. At most one frame and a bit is buffered: what is not taken stays in the port and holds the
 * supervisor back. A broken header means that the place in the stream is lost; the mux is then
 * "lost" and reads nothing until an epoch brings a nonce to find the place again.
 *
 * The nonce may come before the RESUME record that tells about it, since the two ports have no
 * common order, and may so have been taken for the rest of a frame of which the first half is from
 * an older epoch. Therefore the last MUX_HISTORY bytes of input are kept and searched too.
 *
 * Output. Data may be added while mux_has_room(); control frames always fit, because their number
 * is bounded by the runs and by the requests, and no request is taken while there is no room.
 */
#ifndef KOSA8_GUEST_MUX_H
#define KOSA8_GUEST_MUX_H

#include "../base/buf.h"
#include "../base/frame.h"
#include "../proto/agent.h"
#include "loop.h"

#define MUX_HISTORY (FRAME_HEADER_SIZE + FRAME_PAYLOAD_MAX + 32u * 1024)
#define MUX_IN_SIZE (MUX_HISTORY + FRAME_PAYLOAD_MAX + 128u * 1024)
#define MUX_OUT_MAX (1024u * 1024)
#define MUX_OUT_ROOM (64u * 1024) /* below this, data is taken in */

struct mux {
	struct watch port;
	uint32_t epoch;
	bool syncing; /* looking for the nonce */
	bool lost;
	unsigned char nonce[AGENT_NONCE_SIZE];
	unsigned char in[MUX_IN_SIZE];
	size_t in_start, in_end; /* not yet taken; history is before in_start */
	struct buf out;
	size_t out_start; /* sent so far */
};

void mux_init(struct mux *m);
void mux_release(struct mux *m);

/* Reads once. 1: there is new input; 0: none, or no space for it. */
int mux_fill(struct mux *m);
/* The next frame of this epoch; its payload is valid until mux_fill(). 1, 0 when there is none,
 * -EPROTO once when the place is lost. */
int mux_next(struct mux *m, struct frame *ret) must_check;

/* A part of a frame is there, so that the rest can be expected. */
bool mux_is_amid_frame(const struct mux *m);

bool mux_has_room(const struct mux *m);
void mux_send(struct mux *m, enum agent_type type, uint32_t stream, const void *data, size_t len);
/* A frame with the content of an encoder; a failed buffer sends nothing. */
void mux_send_buf(struct mux *m, enum agent_type type, uint32_t stream, const struct buf *b);
void mux_reply(struct mux *m, enum agent_type type, uint32_t stream, const struct agent_reply *r);
/* A frame that is filled in place: mux_begin() gives room for max bytes of payload, or NULL; the
 * next call is mux_end() with how many there are, or mux_cancel(). */
void *mux_begin(struct mux *m, size_t max);
void mux_end(struct mux *m, size_t max, enum agent_type type, uint32_t stream, size_t len);
void mux_cancel(struct mux *m, size_t max);
/* Writes as much as the port takes. 1: something was written; 0: nothing to do or not possible. */
int mux_flush(struct mux *m);
bool mux_flushed(const struct mux *m);

/* Drops everything buffered, both ways; the nonce goes out first, input starts after it. */
void mux_new_epoch(struct mux *m, uint32_t epoch, const unsigned char *nonce);

#endif
