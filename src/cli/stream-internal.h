/* SPDX-License-Identifier: Apache-2.0 */
/* What stream.c and stream-input.c share: stream.c has the loop and what comes from the supervisor,
 * stream-input.c what goes to it: signals, the terminal, stdin. */
#ifndef KOSA8_CLI_STREAM_INTERNAL_H
#define KOSA8_CLI_STREAM_INTERNAL_H

#include "stream.h"

#include "sink.h"

#include "../proto/agent-session.h"

#define OUT_MAX (256u * 1024)  /* towards the socket; stdin waits above half of it */
#define TYPED_MAX (16u * 1024) /* as a terminal does, more is dropped */

enum phase { WAITING, STARTED, LEAVING, ENDED };

struct stream {
	struct connection *c;
	const struct stream_options *options;
	struct sink sinks[2]; /* stdout, stderr */
	struct buf out;	      /* frames for the supervisor */
	uint32_t stdin_window;
	bool stdin_done;
	struct buf typed; /* stdin that the window has no room for: a terminal's only */
	bool resized;	  /* the size is to be sent */
	struct detach_keys detach;
	bool terminal; /* stdin is one, and the program has another */
	int signal_fd;
	bool signalled; /* one was forwarded */
	bool logs_left; /* something was not shown yet */
	bool logs_bad;	/* what came is no log */
	size_t turn;	/* the sink that is written first when both could be */
	enum phase phase;
	json_t *result;
	int status;		    /* the exit status; -1 while there is none */
	int64_t deadline_ms;	    /* the backstop of --timeout; -1: none */
	int64_t signal_deadline_ms; /* -1: none */
	int signal;		    /* what that is for */
};

/* The descriptor to poll. Blocks the signals; those that are ignored stay so (nohup, background
 * jobs). */
int stream_watch_signals(const struct stream_options *o, struct err *e) must_check;
/* After POLLIN on it. */
void stream_take_signals(struct stream *s);
/* Takes the terminal as the phase wants it. */
void stream_take_terminal(struct stream *s);
void stream_put_size(struct stream *s, struct agent_size size);
/* Before each round: what waited for room. */
void stream_flush_input(struct stream *s);
bool stream_wants_stdin(const struct stream *s);
void stream_read_stdin(struct stream *s);

#endif
