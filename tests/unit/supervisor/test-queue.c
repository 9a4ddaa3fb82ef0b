/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/queue.h"

#include "base/fd.h"
#include "base/frame.h"
#include "base/sock.h"

#include "tap.h"

#include <errno.h>
#include <unistd.h>

static size_t frame_len(const struct queue *q, size_t at)
{
	struct frame f;

	return frame_parse(q->bytes.data + at, q->bytes.len - at, &f) > 0 ? f.len : 0;
}

/* Parts of one stream share a frame, as long as nothing of it was sent. */
static void test_data(void)
{
	static unsigned char part[20000];
	struct queue q;
	int pair[2];

	queue_init(&q, 1024 * 1024);
	for (int i = 0; i < 3; i++)
		EQ_INT(queue_data(&q, 1, 2, 3, "ab", 2), 0, "a part");
	EQ_INT(queue_left(&q), FRAME_HEADER_SIZE + 6, "three parts in one frame");
	EQ_INT(frame_len(&q, 0), 6, "that says so");
	EQ_INT(queue_data(&q, 4, 2, 3, "c", 1), 0, "another type");
	EQ_INT(queue_data(&q, 1, 2, 3, "d", 1), 0, "the first type again");
	EQ_INT(queue_left(&q), 3 * FRAME_HEADER_SIZE + 8, "each in its own, in their order");
	EQ_INT(queue_data(&q, 1, 9, 3, "e", 1), 0, "another stream");
	EQ_INT(queue_left(&q), 4 * FRAME_HEADER_SIZE + 9, "in its own");
	EQ_INT(queue_frame(&q, 1, 9, 3, "f", 1), 0, "a whole frame");
	EQ_INT(queue_left(&q), 5 * FRAME_HEADER_SIZE + 10, "is never joined");
	if (sock_pair(pair) < 0 || queue_write(&q, pair[0]) < 0)
		_exit(1);
	EQ_INT(queue_data(&q, 1, 9, 3, "g", 1), 0, "after what was sent");
	EQ_INT(queue_left(&q), FRAME_HEADER_SIZE + 1, "a frame begins");
	for (int i = 0; i < 2; i++)
		EQ_INT(queue_data(&q, 1, 9, 3, part, sizeof(part)), 0, "a large part");
	EQ_INT(queue_left(&q), 2 * FRAME_HEADER_SIZE + 40001, "a frame does not grow for ever");
	(void)fd_close(pair[0]);
	(void)fd_close(pair[1]);
	queue_release(&q);
}

int main(void)
{
	static unsigned char chunk[60000], got[2 * 1024 * 1024];
	struct queue q;
	int pair[2];
	size_t sent = 0, total = 0;

	test_data();
	queue_init(&q, 1024 * 1024);
	if (sock_pair(pair) < 0 || fd_set_nonblock(pair[0], true) < 0 ||
		fd_set_nonblock(pair[1], true) < 0)
		return 1;
	memset(chunk, 'x', sizeof(chunk));
	while (queue_frame(&q, 1, 2, 3, chunk, sizeof(chunk)) == 0)
		sent++;
	EQ_INT(sent, 1024 * 1024 / (sizeof(chunk) + FRAME_HEADER_SIZE), "frames up to the maximum");
	EQ_INT(queue_left(&q), sent * (sizeof(chunk) + FRAME_HEADER_SIZE),
		"and not a byte of one more");
	EQ_INT(queue_write(&q, pair[0]), 0, "a full socket is no error");
	OK(queue_left(&q) > 0, "some is left");
	while (total < sent * (sizeof(chunk) + FRAME_HEADER_SIZE)) {
		ssize_t n = read(pair[1], got + total, sizeof(got) - total);
		if (n > 0)
			total += (size_t)n;
		if (queue_write(&q, pair[0]) < 0)
			break;
	}
	EQ_INT(queue_left(&q), 0, "all is written as the reader reads");
	struct frame f;
	size_t at = 0, frames = 0;
	for (int n; (n = frame_parse(got + at, total - at, &f)) > 0; at += (size_t)n)
		frames += f.type == 1 && f.stream == 2 && f.epoch == 3 && f.len == sizeof(chunk);
	EQ_INT(frames, sent, "every frame arrives whole");
	(void)fd_close(pair[1]);
	EQ_INT(queue_bytes(&q, "x", 1), 0, "one more byte");
	EQ_INT(queue_write(&q, pair[0]), -EPIPE, "a closed reader is an error, not a signal");
	queue_release(&q);
	(void)fd_close(pair[0]);
	return tap_done();
}
