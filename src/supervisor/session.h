/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams between one client and what it started or looks at in the guest: a run, an exec, an
 * attached container, its log, its end, the list of containers, a copy. The operations op_run,
 * op_exec, ... are one of these each; they say what the session is made of, and this file does what
 * they have in common.
 *
 *   WAITING    its operation has not begun. The client going away or sending a signal ends it.
 *   PREPARING  begun, not sent to the agent yet; the same.
 *   OPEN       data and windows pass between client and agent.
 *   ENDING     the client is gone: KILL is sent, output is dropped until RUN_EXIT.
 *
 * The supervisor holds no data back: what the client granted goes to the agent, what the agent
 * granted to the client. It counts both, since neither may exceed what it was granted. Frames of
 * streams that are over are ignored.
 */
#ifndef KOSA8_SUPERVISOR_SESSION_H
#define KOSA8_SUPERVISOR_SESSION_H

#include "op.h"

#include "../proto/agent-session.h"

enum session_state { SESSION_WAITING, SESSION_PREPARING, SESSION_OPEN, SESSION_ENDING };

#define SESSION_STDIN (1u << AGENT_WHICH_STDIN)
#define SESSION_STDOUT (1u << AGENT_WHICH_STDOUT)
#define SESSION_STDERR (1u << AGENT_WHICH_STDERR)

struct session;

struct session_kind {
	uint16_t opens;	  /* the frame to the agent: AGENT_RUN, ... */
	unsigned carries; /* SESSION_*: data of others breaks the protocol */
	bool signals;	  /* takes SIGNAL and RESIZE */
	bool tree;	  /* its end is waited for when the client is gone: it started something */
	uint16_t leave;	  /* KILL or DETACH: what is sent when the client is gone */
	bool names_container; /* an errno of RUN_FAILED is about the container named */
	/* A CONTAINER frame. <0: not acceptable. NULL: none may come. */
	int (*container)(struct session *x, const struct agent_container *c, struct err *e);
	/* RUN_FAILED. True: it was seen to, session_reopen() or op_fail() follows. May be NULL. */
	bool (*failed)(struct session *x, const struct agent_reply *reply);
	/* Adds to the result of one that ended. May be NULL. */
	void (*result)(struct session *x, json_t *members);
};

/* The first member of the operation's state. */
struct session {
	enum session_state state;
	const struct session_kind *kind;
	struct op *op;
	uint32_t stream;
	unsigned carries;
	/* Granted and not yet used: stdout and stderr by the client, stdin by the agent. */
	uint64_t window[AGENT_WHICH_STDERR + 1];
	uint64_t untold; /* of stdin's window: what the client was not told yet */
	bool started;
	bool client_gone;	/* or it wants it ended before it was open */
	bool timed_out;		/* when it went, its time had passed */
	bool keeps_on;		/* it goes on when the client is gone: a detached run */
	bool detach, stdin_eof; /* said before it was open */
	bool resized;
	struct agent_size size;
	int64_t begun_us;
	struct session *next; /* of its bucket */
};

/* In prepare of the operation. */
void session_init(struct session *x, struct op *op, const struct session_kind *kind);
/* For the audit record: the checkpoint that the sandbox stands on. */
void session_bind(struct op *op);
/* In start: from here on it is PREPARING. */
void session_begin(struct session *x);
/* Sends the frame that opens it. Fails also when the client is gone. */
int session_open(struct session *x, const struct buf *payload, struct err *e) must_check;
/* In failed(): PREPARING again, as if it had not been opened. */
void session_reopen(struct session *x);
/* In release. */
void session_release(struct session *x);

/* For struct op_kind. */
void session_client_frame(struct op *op, const struct frame *f);
void session_client_gone(struct op *op);

#endif
