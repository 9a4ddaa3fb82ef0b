/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes on their way out to a non-blocking descriptor: a buffer with a maximum, appended at the
 * end and written from the front. */
#ifndef KOSA8_SUPERVISOR_QUEUE_H
#define KOSA8_SUPERVISOR_QUEUE_H

#include "../base/buf.h"

struct queue {
	struct buf bytes;
	size_t sent; /* of bytes.len */
	size_t last; /* length of the frame at the end, 0: none that can go on */
};

void queue_init(struct queue *q, size_t max_bytes);
void queue_release(struct queue *q);
/* Appends one frame (base/frame.h). -ENOBUFS when it does not fit: nothing is appended. */
int queue_frame(struct queue *q, uint16_t type, uint32_t stream, uint32_t epoch,
	const void *payload, size_t len) must_check;
/* Like queue_frame() for a part of a stream of bytes: it goes on with the last frame when that is
 * of the same type and nothing of it was sent. So many small parts take no more than one large one.
 */
int queue_data(struct queue *q, uint16_t type, uint32_t stream, uint32_t epoch, const void *payload,
	size_t len) must_check;
int queue_bytes(struct queue *q, const void *data, size_t len) must_check;
size_t queue_left(const struct queue *q);
/* Writes what the descriptor takes now. 0, or a negative errno (never -EAGAIN). */
int queue_write(struct queue *q, int fd) must_check;

#endif
