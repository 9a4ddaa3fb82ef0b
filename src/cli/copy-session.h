/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of the supervisor's `copy`: a tree goes in as STDIN, or comes out as STDOUT,
 * within windows. Little is held: towards the socket one piece, from it what was granted.
 */
#ifndef KOSA8_CLI_COPY_SESSION_H
#define KOSA8_CLI_COPY_SESSION_H

#include "connect.h"
#include "copy-progress.h"
#include "tree-send.h"

#include "../proto/tree-stream.h"

struct copy_io {
	/* In: one of these. */
	struct tree_send *send;
	int from_fd; /* the bytes of a tree; -1: none */
	/* Out: one of these. */
	const struct tree_sink *sink;
	int to_fd; /* not blocking; -1: none; closed when all is written, and set to -1 */
	struct copy_progress *progress;
	int signal; /* set when one ended the copy: it failed with ERR_CANCELLED */
};
#define COPY_IO_NONE                        \
	{                                   \
		.from_fd = -1, .to_fd = -1, \
	}

/* {"op": "copy", ...}; kind: in, out, upper. path and name are bytes. NULL: out of memory. */
json_t *copy_request(const struct context *c, const char *kind, const char *container,
	const char *path, const char *name, bool contents, uint32_t mount);
/* Sends the request and carries the tree, to RESULT and until all is written. From here on SIGINT,
 * SIGTERM and SIGHUP are blocked and SIGPIPE ignored. */
int copy_run(
	struct connection *c, const json_t *request, struct copy_io *io, struct err *e) must_check;
/* SIGINT, SIGTERM and SIGHUP, unless ignored, come to the descriptor that is returned. */
int copy_watch_signals(struct err *e) must_check;
void copy_unblock_signals(void);

#endif
