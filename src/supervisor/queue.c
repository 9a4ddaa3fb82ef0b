/* SPDX-License-Identifier: Apache-2.0 */
#include "queue.h"

#include "../base/frame.h"

#include <errno.h>
#include <sys/socket.h>

/* Bytes already written are dropped from the buffer when they are this many. */
#define COMPACT_BYTES (256u * 1024)
/* A frame that grows in the queue holds no more than this. */
#define GROW_MAX (32u * 1024)

void queue_init(struct queue *q, size_t max_bytes)
{
	buf_init(&q->bytes, max_bytes);
	q->sent = q->last = 0;
}

void queue_release(struct queue *q)
{
	buf_release(&q->bytes);
	q->sent = q->last = 0;
}

size_t queue_left(const struct queue *q)
{
	return q->bytes.len - q->sent;
}

static int room(struct queue *q, size_t len)
{
	if (len > q->bytes.max - queue_left(q))
		return -ENOBUFS;
	if (q->bytes.len + len > q->bytes.max) {
		buf_consume(&q->bytes, q->sent);
		q->sent = 0;
	}
	return 0;
}

int queue_frame(struct queue *q, uint16_t type, uint32_t stream, uint32_t epoch,
	const void *payload, size_t len)
{
	int r = room(q, FRAME_HEADER_SIZE + len);

	if (r < 0)
		return r;
	size_t before = q->bytes.len;
	frame_put(&q->bytes, type, stream, epoch, payload, len);
	if (buf_failed(&q->bytes)) {
		q->bytes.len = before;
		q->bytes.failed = false;
		return -ENOBUFS;
	}
	q->last = q->bytes.len - before;
	return 0;
}

static void put_le32(unsigned char *at, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		at[i] = (unsigned char)(v >> (8 * i));
}

int queue_data(struct queue *q, uint16_t type, uint32_t stream, uint32_t epoch, const void *payload,
	size_t len)
{
	struct frame f;

	if (q->last == 0 || q->last > queue_left(q) || q->last + len > GROW_MAX ||
		frame_parse(q->bytes.data + q->bytes.len - q->last, q->last, &f) <= 0 ||
		f.type != type || f.stream != stream)
		return queue_frame(q, type, stream, epoch, payload, len);
	size_t whole = q->last;
	int r = queue_bytes(q, payload, len);
	if (r < 0)
		return r;
	q->last = whole + len;
	put_le32(q->bytes.data + q->bytes.len - q->last, (uint32_t)(f.len + len));
	return 0;
}

int queue_bytes(struct queue *q, const void *data, size_t len)
{
	int r = room(q, len);

	if (r < 0)
		return r;
	q->last = 0;
	buf_put(&q->bytes, data, len);
	if (buf_failed(&q->bytes)) {
		q->bytes.failed = false;
		return -ENOBUFS;
	}
	return 0;
}

int queue_write(struct queue *q, int fd)
{
	while (queue_left(q) > 0) {
		ssize_t n = send(fd, q->bytes.data + q->sent, queue_left(q), MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			return -errno;
		q->sent += (size_t)n;
	}
	if (queue_left(q) == 0) {
		/* An idle supervisor keeps no large buffers. */
		if (q->bytes.cap > COMPACT_BYTES)
			buf_release(&q->bytes);
		q->bytes.len = 0;
		q->sent = q->last = 0;
	} else if (q->sent > COMPACT_BYTES) {
		buf_consume(&q->bytes, q->sent);
		q->sent = 0;
	}
	return 0;
}
