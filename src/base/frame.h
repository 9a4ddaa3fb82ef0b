/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: the unit of both wire formats (proto/). A 16-byte header, little-endian, then the
 * payload:
 *
 *     u32 length   of the payload, at most FRAME_PAYLOAD_MAX
 *     u16 type     proto/agent.h or proto/client.h
 *     u16 magic    0x38c0: a stream that lost its place is noticed at the next header
 *     u32 stream   0: the connection itself; else the run or request it belongs to
 *     u32 epoch    agent wire: the sender's epoch (proto/agent.h); client wire: 0
 */
#ifndef KOSA8_BASE_FRAME_H
#define KOSA8_BASE_FRAME_H

#include "buf.h"

#define FRAME_HEADER_SIZE 16
#define FRAME_PAYLOAD_MAX (256u * 1024)
#define FRAME_MAGIC 0x38c0

struct frame {
	uint16_t type;
	uint32_t stream;
	uint32_t epoch;
	const unsigned char *payload; /* points into the reader; valid until the next call */
	size_t len;
};

/* The header of a frame whose payload of len bytes (<= FRAME_PAYLOAD_MAX) stands elsewhere. */
void frame_header(unsigned char ret[static FRAME_HEADER_SIZE], uint16_t type, uint32_t stream,
	uint32_t epoch, size_t len);
/* Appends a whole frame. Fails b (sticky) when len is over FRAME_PAYLOAD_MAX. */
void frame_put(struct buf *b, uint16_t type, uint32_t stream, uint32_t epoch, const void *payload,
	size_t len);

/* Looks for a whole frame at data. Returns its total size with *ret filled in (pointing into data),
 * 0 when more bytes are needed, -EPROTO when the header is invalid. */
int frame_parse(const unsigned char *data, size_t len, struct frame *ret) must_check;

#endif
