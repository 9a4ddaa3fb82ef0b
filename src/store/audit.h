/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log: audit/log.jsonl, append-only JSON lines, one record each:
 *
 *   {"seq":N,"time":RFC3339,"phase":"begin"|"end","of":SEQ,"action":"run","sandbox":NAME,
 *    "sandbox_id":ID,"actor":{...},"bound":{...},"result":"ok"|"error"|...,"detail":{...},
 *    "prev":HASH,"hash":HASH}
 *
 * hash = SHA-256 over the record's canonical form (compact, keys sorted) without "hash"; prev is
 * the hash of the record before (64 zeros for the first). The line is that canonical form with
 * ,"hash":HASH put before the last brace, so it is checked over its bytes. Every action is two
 * records: "begin" before it is performed (if that cannot be written the action is refused) and
 * "end" with the result ("of" names the begin). An action whose end is missing was cut off by a
 * crash. Members that do not apply are left out.
 *
 * The head {"count","hash","key","sig"} (Ed25519, RFC 8032, over "kosa8-audit-v1\n<count>\n<hash>")
 * is in audit/head, rewritten after each append; the key pair is in audit/key (0600, PEM). Count,
 * hash and public key are also kept in the catalog. Order under the lock audit/lock: log,
 * fdatasync, head, catalog. So after a crash the log may be one record ahead of the head, or end
 * in a torn line; the next append seals that and says so in a record of its own: action
 * "recovered", phase "end", of 0, detail {"sealed":SEQ} or {"torn_bytes":N}. Anything else is
 * damage. Damage is not repaired: the chain goes on from the last count that was signed, and the
 * gap stays; without such a count (forged head, other key) nothing more is recorded: ERR_CORRUPT.
 */
#ifndef KOSA8_STORE_AUDIT_H
#define KOSA8_STORE_AUDIT_H

#include "catalog.h"

#include "../base/json.h"

#include <stdbool.h>
#include <sys/types.h>

struct audit_actor {
	char kind[8];	/* "human" or "agent" */
	char name[128]; /* KOSA8_ACTOR, else "" */
	bool terminal;	/* a terminal is attached to stdin or stderr */
	uid_t uid;
	pid_t pid;	   /* of the command */
	char program[256]; /* of the command's parent: /proc/PID/exe, else comm */
};
/* Of this process: KOSA8_ACTOR set makes an agent, else a terminal makes a human, else an agent. */
void audit_actor_self(struct audit_actor *ret);
json_t *audit_actor_encode(const struct audit_actor *a);
/* What a client claims; uid and pid are then overwritten by what the kernel says of the peer. */
int audit_actor_decode(const json_t *o, struct audit_actor *ret, struct err *e) must_check;

struct audit_event {
	const char *action; /* "sandbox.create", "run", "checkpoint", "rewind", "image.pull", ... */
	const char *sandbox;	/* name, or NULL */
	const char *sandbox_id; /* or NULL */
	const struct audit_actor *actor;
	json_t *bound;	/* borrowed, or NULL: image, checkpoint, policy: hashes */
	json_t *detail; /* borrowed, or NULL: argv, label, exit code, ... (cut to 16 kB) */
};

struct audit;
int audit_open(
	const struct home *h, struct catalog *c, struct audit **ret, struct err *e) must_check;
void audit_close(struct audit *a);
void audit_closep(struct audit **a);
#define cleanup_audit __attribute__((cleanup(audit_closep)))

int audit_begin(
	struct audit *a, const struct audit_event *ev, uint64_t *ret_seq, struct err *e) must_check;
/* result: "ok" or an err_kind_name(). ev as for the begin, with the detail of the end. */
int audit_end(struct audit *a, const struct audit_event *ev, uint64_t begin_seq, const char *result,
	struct err *e) must_check;

/* Makes the head durable ahead of the next append, which else has to: audit_settle(), which may run
 * in a thread of its own, and with its 0 audit_settled() in the thread of the appends. Not needed.
 */
#define AUDIT_SIG_SIZE 129
int audit_settle(const struct audit *a, char ret_sig[static AUDIT_SIG_SIZE]) must_check;
void audit_settled(struct audit *a, const char *sig);

/* Calls cb with each record that parses, in order, from seq on; cb returns < 0 to stop. */
int audit_read(const struct home *h, uint64_t from_seq, int (*cb)(const json_t *record, void *ctx),
	void *ctx, struct err *e) must_check;

enum audit_damage {
	AUDIT_OK,
	AUDIT_CHANGED,	/* a record's bytes do not give its hash, or it is another record */
	AUDIT_DROPPED,	/* a sequence number is missing, or a line that is no record is between */
	AUDIT_SWAPPED,	/* records out of order */
	AUDIT_CUT,	/* fewer records than the head counts */
	AUDIT_OLD_COPY, /* log and head agree with each other, but the catalog saw more */
	AUDIT_UNSIGNED, /* records beyond the head that no crash can explain */
	AUDIT_BAD_HEAD, /* missing, unreadable, or its signature does not hold */
	AUDIT_BAD_KEY,	/* the key is not the one the catalog knows */
	AUDIT_DAMAGE_COUNT
};
const char *audit_damage_name(enum audit_damage d);

struct audit_report {
	enum audit_damage damage;
	uint64_t count;	    /* records that hold */
	uint64_t first_bad; /* sequence number; 0 for AUDIT_OK, AUDIT_BAD_HEAD, AUDIT_BAD_KEY */
	uint64_t line;	    /* of the log, 1-based; 0 when it is not about a line */
	char head_hash[65];
	char text[256]; /* for people: what is wrong */
	bool unsealed;	/* the last record is torn or not sealed yet: a crash, no alarm */
};
/* Fails only when the log cannot be read at all; damage is in the report. */
int audit_verify(const struct home *h, struct catalog *c, struct audit_report *ret,
	struct err *e) must_check;

#endif
