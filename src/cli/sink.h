/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where one output stream of a run goes: stdout or stderr of this process, whatever that is. The
 * descriptor's flags are never changed: O_NONBLOCK would change the user's terminal too. A pipe or
 * terminal is opened anew, non-blocking, as a description of our own; where that is not allowed, a
 * write after POLLOUT takes at most PIPE_BUF bytes, which is sure not to block. Into a file goes
 * all there is. Holds at most the window it granted.
 */
#ifndef KOSA8_CLI_SINK_H
#define KOSA8_CLI_SINK_H

#include "../base/buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SINK_WINDOW (256u * 1024)

enum sink_kind { SINK_NONBLOCK, SINK_PIPE, SINK_FILE, SINK_SOCKET };

struct sink {
	int fd;	    /* what is polled and written */
	int own_fd; /* the description of our own, or -1 */
	enum sink_kind kind;
	struct buf data;
	size_t at;	  /* what is before it in data was written */
	uint32_t window;  /* bytes the other side may still send */
	uint32_t written; /* written and not granted again yet */
};

void sink_init(struct sink *s, int fd);
void sink_release(struct sink *s);
/* -EPROTO when more came than was granted. */
int sink_put(struct sink *s, const void *data, size_t len) must_check;
size_t sink_pending(const struct sink *s);
/* For what is made here and has no window: the bytes that sink_append() may be given now. */
size_t sink_room(const struct sink *s);
void sink_append(struct sink *s, const void *data, size_t len);
/* They write into the same file, pipe or terminal. */
bool sink_is_same(const struct sink *a, const struct sink *b);
/* One write, after POLLOUT: bytes written, -EAGAIN, or a negative errno. */
ssize_t sink_write(struct sink *s) must_check;
/* The window to grant now, 0 when it is not worth a frame; it counts as granted. */
uint32_t sink_grant(struct sink *s);

#endif
