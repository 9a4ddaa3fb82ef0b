/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor of one sandbox: what its parts share. Only src/supervisor includes this.
 *
 * It owns the sandbox's lock, its machine, and its record in the catalog, and does one thing at a
 * time that changes the machine (op.h). It ends when the machine ends: stopped, destroyed, crashed.
 */
#ifndef KOSA8_SUPERVISOR_SUPERVISOR_H
#define KOSA8_SUPERVISOR_SUPERVISOR_H

#include "conn.h"
#include "machine.h"
#include "mounts.h"
#include "ports.h"

#include "../store/audit.h"
#include "../store/spec.h"

struct op;
struct session;

#define SESSION_BUCKETS 256

enum supervisor_state {
	SUPERVISOR_STARTING, /* no machine yet */
	SUPERVISOR_RUNNING,
	SUPERVISOR_ENDING, /* results are flushed, then the process ends */
};

struct supervisor {
	enum supervisor_state state;
	uv_loop_t loop;
	uv_poll_t listen_poll;
	uv_timer_t timer; /* starting: until the agent must answer; ending: until all is cut off */
	uv_signal_t sigterm;
	const char *id; /* of the sandbox */
	int listen_fd, lock_fd;
	int dirfd, layers_dirfd, checkpoints_dirfd, images_dirfd, templates_dirfd;
	struct home home;
	struct catalog *catalog;
	struct audit *audit;
	uv_work_t settle_work; /* audit_settle(): op.c */
	bool settling;
	int settle_result;
	char settle_sig[AUDIT_SIG_SIZE];
	struct sandbox_row row; /* as of the start: id and name do not change */
	struct spec spec;
	char policy_hash[65];
	struct vm_host host;
	struct vm_template template;
	struct machine *machine; /* NULL while starting and ending */
	struct mounts *mounts;	 /* the machine's; NULL before there is one */
	struct ports *ports;	 /* likewise, but of the supervisor's whole life */
	bool disk_full;		 /* QEMU waits for space on the host */
	int64_t disk_notice_ms;	 /* when that was last told */
	bool stopping;		 /* the guest was asked to power down and nobody waits for it */
	uv_timer_t disk_timer;
	struct op *ops;				   /* waiting and active, oldest first: op.c */
	struct session *sessions[SESSION_BUCKETS]; /* open ones by their stream: session.c */
	unsigned ends_left; /* ends of containers that the guest may still report */
	bool ends_told;	    /* that it reports what it may not */
};

/* What a machine of this supervisor reports goes here: supervisor.c routes it. */
extern const struct machine_events supervisor_machine_events;
/* machine_start() with this sandbox's folders, log and host filled in. */
int supervisor_start_machine(struct supervisor *s, struct machine_source *source,
	struct machine **ret, struct err *e) must_check;
/* The machine that counts from now on, with its mounts; the former is freed with its own, its runs
 * end with `why`, and connections to its ports are reset. */
void supervisor_set_machine(
	struct supervisor *s, struct machine *m, struct mounts *mounts, const struct err *why);
/* A new set of mounts, empty. ERR_IO */
int supervisor_new_mounts(struct supervisor *s, struct mounts **ret, struct err *e) must_check;
/* Published ports are listened on already; from now on clients are let in. */
void supervisor_open_ports(struct supervisor *s);
/* disk_full: the error that says so. */
int supervisor_why_it_waits(const struct supervisor *s, struct err *e);
/* What s->spec has become is written to the catalog. */
int supervisor_save_spec(struct supervisor *s, struct err *e) must_check;

/* Opens everything the sandbox consists of; for the start operation. */
int supervisor_open(struct supervisor *s, struct err *e) must_check;

/* The end: frees the machine, records the state (crash: why, or NULL), gives up socket and lock,
 * ends all operations but `last` with `why`, and leaves the loop once the results are written. The
 * caller answers `last` (may be NULL) afterwards: its client finds the sandbox as it was told. */
void supervisor_end(struct supervisor *s, enum sandbox_state state, const char *crash,
	const struct err *why, const struct op *last);

#endif
