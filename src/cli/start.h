/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a sandbox's supervisor: kosa8-supervisor ID with these descriptors, in a session of its
 * own: 0 /dev/null, 1 and 2 sandboxes/ID/supervisor.log, 3 the sandbox's lock, 4 the listening
 * control.sock, 5 a socketpair to this client, which carries the "start" request. */
#ifndef KOSA8_CLI_START_H
#define KOSA8_CLI_START_H

#include "context.h"

/* lock_fd: the sandbox's lock, held; borrowed, the supervisor shares it. mode: "new", "boot" or
 * "rewind" (with the checkpoint's id). Returns when the supervisor is ready or has failed; notices
 * are shown. */
int supervisor_start(const struct context *c, const struct sandbox *s, int lock_fd,
	const char *mode, const char *checkpoint, struct action *a, struct err *e) must_check;
/* Takes the lock of a sandbox that is not alive and starts it: from its disk (checkpoint NULL),
 * recorded as sandbox.start, or from a checkpoint, recorded as rewind. */
int sandbox_start(struct context *c, const struct sandbox *s,
	const struct checkpoint_row *checkpoint, struct err *e) must_check;

#endif
