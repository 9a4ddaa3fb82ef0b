/* SPDX-License-Identifier: Apache-2.0 */
/* What a command works with: the open state directory, and one sandbox of it. */
#ifndef KOSA8_CLI_CONTEXT_H
#define KOSA8_CLI_CONTEXT_H

#include "../store/audit.h"
#include "../store/catalog.h"
#include "../store/home.h"

#include <stdbool.h>

struct context {
	struct home home;
	struct catalog *catalog;
	struct audit *audit; /* opened by the first action */
	struct audit_actor actor;
};

/* Also sets KOSA8_AUTH_FILE for the programs that this process starts (image/worker.h). */
int context_open(struct context *ret, struct err *e) must_check;
void context_close(struct context *c);
#define cleanup_context __attribute__((cleanup(context_close)))
/* Finishes what a crash left half done; what cannot be finished is for the next time. */
void context_sweep(const struct context *c);
/* {"op": op, "actor": {...}}: the base of every request. NULL: out of memory. */
json_t *context_request(const struct context *c, const char *op);

/*
 * An action that this command performs itself. The caller fills in event (all but the actor);
 * nothing is to be done before action_begin() succeeded. bound and detail are borrowed and may be
 * replaced before the end.
 */
struct action {
	struct audit_event event;
	bool frees_space; /* also on a full disk: store/reserve.h */
	uint64_t seq;	  /* of the begin; 0: the supervisor has recorded the end */
};
int action_begin(struct context *c, struct action *a, struct err *e) must_check;
/* result: what the action returned, *e its error. Returns result, or the error of recording a
 * success: then the action counts as failed. */
int action_end(struct context *c, struct action *a, int result, struct err *e) must_check;

/* What is so, from the catalog's row and the lock. */
enum live_state {
	LIVE_CREATING,
	LIVE_RUNNING,
	LIVE_STOPPED,
	LIVE_CRASHED,
	LIVE_BUSY, /* stopped, and its lock is held: a start or the end of a stop */
	LIVE_REMOVING,
	LIVE_STATE_COUNT
};
const char *live_state_name(enum live_state s);
enum live_state live_state_of(enum sandbox_state state, bool alive);

struct sandbox {
	struct sandbox_row row;
	int dirfd;  /* sandboxes/ID; -1 when the folder is missing */
	bool alive; /* somebody holds the lock */
	enum live_state state;
};
int sandbox_open(
	const struct context *c, const char *name, struct sandbox *ret, struct err *e) must_check;
/* Of a row, which is taken over on success. */
int sandbox_from_row(const struct context *c, struct sandbox_row *row, struct sandbox *ret,
	struct err *e) must_check;
void sandbox_release(struct sandbox *s);
#define cleanup_sandbox __attribute__((cleanup(sandbox_release)))
/* What a record about it is bound to: its policy, and a checkpoint (may be NULL). */
int sandbox_bind(const struct sandbox *s, const struct checkpoint_row *p, json_t **ret,
	struct err *e) must_check;
/* ERR_WRONG_STATE with what to do, unless the sandbox is running. */
int sandbox_require_running(const struct sandbox *s, struct err *e) must_check;

#endif
