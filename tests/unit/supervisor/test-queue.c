/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/queue.h"

#include "base/fd.h"
#include "base/frame.h"
#include "base/sock.h"

#include "tap.h"

#include <errno.h>
#include <unistd.h>

int main(void)
{
	static unsigned char chunk[60000], got[2 * 1024 * 1024];
	struct queue q;
	int pair[2];
	size_t sent = 0, total = 0;

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
