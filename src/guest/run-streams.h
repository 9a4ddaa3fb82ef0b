/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three streams of a run: pipes or a terminal on one side, the client's windows and frames and
 * the container's log on the other.
 */
#ifndef KOSA8_GUEST_RUN_STREAMS_H
#define KOSA8_GUEST_RUN_STREAMS_H

#include "../base/frame.h"
#include "../proto/agent-session.h"
#include "loop.h"

struct run;
struct runs;

/* Bytes of stdin that the agent holds for a run: what it grants at first. */
#define RUN_STDIN_WINDOW (256u * 1024)

struct run_output {
	struct watch pipe;
	uint32_t window; /* granted and not used */
	uint32_t left;	 /* DRAINING: bytes in the pipe that are this run's own */
	bool ended;	 /* nothing is read any more */
	bool eof_sent;	 /* to the client */
};

struct run_input {
	struct watch pipe;
	struct buf data;
	uint32_t granted;  /* the client may send so much more */
	uint32_t consumed; /* written since the last grant */
	bool eof;
	bool line_begun; /* a terminal: something was typed since the last end of a line */
	bool end_typed;	 /* a terminal: for this client */
};

/* Pipes for the child's ends in ret_child[3] (owned by the caller), the others watched. With a
 * terminal there are none: the terminal comes with its STARTED. */
int run_streams_open(
	struct runs *rs, struct run *r, int ret_child[static 3], struct err *e) must_check;
int run_streams_terminal(struct runs *rs, struct run *r, int master, struct err *e) must_check;
void run_streams_close(struct runs *rs, struct run *r);
/* Lets the client send what there is room for. */
void run_stdin_grant(struct runs *rs, struct run *r);
/* -EPROTO: more than was granted. */
int run_stdin_data(struct runs *rs, struct run *r, const struct frame *f) must_check;
void run_window(struct run *r, const struct frame *f);
void run_resize(struct run *r, const struct agent_size *size);
/* 1: progress. */
int run_stdin_step(struct runs *rs, struct run *r);
int run_output_step(struct runs *rs, struct run *r, size_t which);
void run_send_eof(struct runs *rs, struct run *r, size_t which);
/* Called when all writers of the run have ended: notes what the pipes hold. */
void run_streams_drain(struct run *r);

#endif
