/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of a run: its three streams, its signals and its result. */
#ifndef KOSA8_CLI_STREAM_H
#define KOSA8_CLI_STREAM_H

#include "connect.h"

struct stream_options {
	bool stdin_open;     /* forward stdin; else it is not touched at all */
	const char *timeout; /* as given, for the message; NULL: none */
	uint64_t timeout_ms; /* 0: none; enforced in the guest, here only some seconds later */
};

/* Sends the run's request and carries its streams until RESULT and until all its output is written.
 * Returns the exit status for this process, or a negative errno when kosa8 failed. Blocks SIGINT,
 * SIGTERM and SIGHUP and ignores SIGPIPE: to be called once, last. */
int stream_run(struct connection *c, const json_t *request, const struct stream_options *o,
	struct err *e) must_check;

/* The exit status that a RESULT's members say; messages go to stderr. Here for the tests. */
int stream_status(const json_t *result, const struct stream_options *o, struct err *e) must_check;

#endif
