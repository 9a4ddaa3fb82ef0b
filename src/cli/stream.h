/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of a session: its three streams, terminal, signals and result. */
#ifndef KOSA8_CLI_STREAM_H
#define KOSA8_CLI_STREAM_H

#include "connect.h"
#include "detach-keys.h"

struct log_view;

struct stream_options {
	const char *verb;      /* for messages: "run" */
	const char *container; /* as it was named; NULL: the result has its id */
	bool stdin_open;       /* forward stdin; else it is not touched at all */
	bool detached;	       /* run -d: its id is the result */
	bool tty;	  /* the program has a terminal: its size follows ours, and when stdin is
			   * one, that is taken (terminal.h) */
	bool redraw;	  /* of a program that has drawn before: attach */
	bool exec;	  /* in a container that goes on: once left, nobody can attach again */
	bool own_signals; /* they end this process; else the program gets the first */
	bool stays;	  /* the program goes on when this process ends: of the signals it gets
			   * SIGINT only, and a terminal that went away is no end of its stdin */
	struct detach_keys detach_keys; /* for a terminal whose keys are forwarded */
	struct log_view *logs;		/* STDOUT is records for it; NULL: it is the program's */
	const char *timeout;		/* as given, for the message; NULL: none */
	uint64_t timeout_ms; /* 0: none; enforced in the guest, here only some seconds later */
};

/* Sends the request, with the terminal's size if there is one, and carries its streams until RESULT
 * and until all its output is written. Returns the exit status for this process, or a negative
 * errno when kosa8 failed. Blocks SIGINT, SIGTERM and SIGHUP (with a terminal: also SIGQUIT,
 * SIGTSTP, SIGCONT and SIGWINCH) and ignores SIGPIPE: to be called once, last. */
int stream_run(struct connection *c, json_t *request, const struct stream_options *o,
	struct err *e) must_check;

/* stream-status.c. The exit status that a RESULT's members say; messages go to stderr, the id of a
 * detached run to stdout. sandbox: its name. */
int stream_status(const json_t *result, const char *sandbox, const struct stream_options *o,
	struct err *e) must_check;
/* Says that --timeout has passed; returns 124. */
int stream_timed_out(const struct stream_options *o);

#endif
