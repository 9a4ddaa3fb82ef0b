/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations: what a client's request becomes. The table in op.c says for each whether it is
 * recorded in the audit log and whether it is exclusive. Exclusive ones run alone, in the order of
 * their arrival; the others wait for them only to start; immediate ones wait for nothing. An
 * operation goes on when its client goes away (but for sessions, see session.h).
 */
#ifndef KOSA8_SUPERVISOR_OP_H
#define KOSA8_SUPERVISOR_OP_H

#include "supervisor.h"

/* Waiting and active ones of the machine together; more are refused. */
#define OPS_MAX 512
/* Others still get in: stop, rm. */
#define OPS_ALL_MAX (OPS_MAX + 64)
/* What a guest answers at once, it answers by then, or it never may. */
#define OP_ANSWER_MS 15000

struct op;

struct op_kind {
	const char *name;   /* in the request */
	const char *action; /* in the audit log; NULL: not recorded */
	bool exclusive;
	bool immediate;	 /* does not wait for an exclusive one */
	bool startup;	 /* allowed before there is a machine, and only then */
	bool of_machine; /* about what runs in the machine: ends with it, also at a rewind */
	bool answered;	 /* the guest answers it at once: fails when it does not (op_unanswered) */
	/* Checks the request; before it waits. May be NULL. */
	int (*prepare)(struct op *op, struct err *e);
	/* Begins it; the end is op_succeed() or op_fail(), at once or later. */
	void (*start)(struct op *op);
	/* A later frame of the client, and its going away. May be NULL. */
	void (*frame)(struct op *op, const struct frame *f);
	void (*gone)(struct op *op);
	/* Frees op->state. May be NULL. */
	void (*release)(struct op *op);
};

struct op {
	const struct op_kind *kind;
	struct supervisor *s;
	struct conn *conn; /* NULL once the client is gone */
	json_t *request;
	struct audit_actor actor;
	json_t *bound;	    /* for the audit record: hashes */
	json_t *detail;	    /* for the audit record: in the end with the outcome */
	const char *action; /* kind->action; of a start, what the client began to record */
	uint64_t audit_seq; /* of the begin; 0: none */
	bool active;
	uv_timer_t *limit; /* until the guest must have answered; NULL: none */
	void *state;
	struct op_ref *refs;
	struct op *next;
};

/* The connections' callbacks. */
extern const struct conn_events op_conn_events;

/* Puts a decoded operation into the queue. */
void op_submit(struct op *op);
void op_succeed(struct op *op, json_t *members); /* takes members; NULL: none */
void op_fail(struct op *op, const struct err *why);
/* Starts what may start now. */
void op_advance(struct supervisor *s);
/* Ends all but `except` (may be NULL) with this error: the machine is gone. */
void op_fail_all(struct supervisor *s, const struct op *except, const struct err *why);
/* Ends those of the machine that is gone. */
void op_fail_of_machine(struct supervisor *s, const struct err *why);
/* For callbacks that may come after the operation's end: op_ref_end() gives the operation, or NULL
 * when it has ended, and frees the reference. */
struct op_ref;
struct op_ref *op_ref_new(struct op *op); /* NULL when out of memory */
struct op *op_ref_end(struct op_ref *ref);
/* OP_ANSWER_MS have passed: fails with why the guest does not answer; but while an exclusive one
 * holds the guest, the time begins anew. */
void op_unanswered(struct op *op);
/* A line for people to whoever waits for this operation. */
void op_notice(struct op *op, const char *text);

/* The machine's news for the operation that waits for it. */
void op_start_ready(struct supervisor *s);
void op_start_died(struct supervisor *s, const struct err *why);
void op_checkpoint_quiesced(struct supervisor *s, uint32_t number);
void op_checkpoint_rm_merged(struct supervisor *s, bool ok);
/* The process ended after a stop was asked for: true when that was answered. */
bool op_stop_ended(struct supervisor *s);
/* A stop that no client asked for: SIGTERM. */
void op_stop_by_signal(struct supervisor *s);
/* A frame of a session, or ENDED (op-container.c). */
void op_session_frame(struct supervisor *s, const struct frame *f);
void op_container_ended(struct supervisor *s, const struct frame *f);

/* At a start: listens on all published ports; those with port 0 get theirs for good. created: the
 * sandbox is just being made (hints). */
int op_port_listen_all(struct supervisor *s, bool created, struct err *e) must_check;

extern const struct op_kind op_mount_add, op_mount_rm, op_port_add, op_port_rm;
extern const struct op_kind op_start, op_status, op_attach, op_run, op_exec, op_container_attach,
	op_logs, op_wait, op_ps, op_kill, op_container_rm, op_copy, op_checkpoint, op_checkpoint_rm,
	op_rewind, op_stop, op_destroy;

#endif
