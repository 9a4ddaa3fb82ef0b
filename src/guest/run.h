/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runs: programs in containers, from RUN to RUN_EXIT and to the last trace being removed.
 *
 *   FREE       no run
 *   STARTING   its init sets the container up; nothing is read or written yet.
 *              init's report goes to RUNNING (RUN_STARTED) or FAILED (RUN_FAILED)
 *   RUNNING    streams flow within their windows
 *   FAILED     reported; waits for init's end
 *   DRAINING   all its processes have ended but init: what the pipes still hold goes out as the
 *              windows allow. Then both EOFs and RUN_EXIT: OVER
 *   OVER       no frame any more; when init has ended too, the cgroup is removed: FREE
 *
 * A run that the agent ended (timeout, KILL) does not wait for windows: what does not fit is lost.
 *
 * Orphans. When an epoch ends, its runs have no client: their output is read and dropped, their
 * stdin is at its end, no frame is sent; timeouts hold.
 */
#ifndef KOSA8_GUEST_RUN_H
#define KOSA8_GUEST_RUN_H

#include "../base/frame.h"
#include "cgroup.h"
#include "disk.h"
#include "keeper.h"
#include "loop.h"
#include "mux.h"

#include <stdint.h>
#include <sys/types.h>

#define RUNS_MAX 64
#define RUN_ID_SIZE 13
/* Bytes of stdin that the agent holds for a run: what it grants at first. */
#define RUN_STDIN_WINDOW (128u * 1024)

enum run_state { RUN_FREE, RUN_STARTING, RUN_RUNNING, RUN_FAILED, RUN_DRAINING, RUN_OVER };

struct run_output {
	struct watch pipe;
	uint32_t window; /* granted and not used */
	uint32_t left;	 /* DRAINING: bytes in the pipe that are this run's own */
	bool ended;	 /* EOF was sent */
};

struct run_input {
	struct watch pipe;
	struct buf data;
	uint32_t granted;  /* the supervisor may send so much more */
	uint32_t consumed; /* written since the last grant */
	bool eof;
};

struct run {
	enum run_state state;
	bool orphan;
	uint32_t stream;
	char id[RUN_ID_SIZE];
	char folder[KEEPER_NAME_SIZE]; /* below /disk/runs; "": none */
	pid_t init;
	int program_pidfd;	  /* -1: not started */
	uint64_t pending_signals; /* came while STARTING: bit N - 1 */
	int cgroup_fd;
	struct watch report;
	struct run_input in;
	struct run_output out[2]; /* stdout, stderr */
	int64_t deadline_ms;	  /* -1: none */
	bool forced;		  /* the agent ended it: `how` is TIMEOUT or KILLED */
	enum agent_end how;
	bool has_status;
	int status; /* wait status of the program, or of init when it did not report */
};

struct runs {
	struct run run[RUNS_MAX];
	size_t turn; /* whose output goes first */
	struct loop *loop;
	struct mux *mux;
	struct cgroups *cgroups;
	struct disk *disk;
	struct keeper *keeper;
	char hostname[64];   /* for runs that name none */
	char machine_id[33]; /* hex */
};

void runs_init(struct runs *rs);
/* A RUN frame; takes what m holds. Refusals are sent as RUN_FAILED. */
void runs_start(struct runs *rs, uint32_t stream, struct agent_run *m);
/* Any other frame of a run. Of an unknown run: ignored, it may be over already. */
void runs_frame(struct runs *rs, const struct frame *f);
/* A child of this pid ended. True if it was an init. */
bool runs_reaped(struct runs *rs, pid_t pid, int status);
/* One bounded round of reports, streams and timeouts; 1: there is more to do. */
int runs_step(struct runs *rs);
/* Removes what is OVER; after the output was flushed, so that no reply waits for it. */
void runs_clean(struct runs *rs);
int64_t runs_deadline_ms(const struct runs *rs);
void runs_orphan_all(struct runs *rs);
/* For SHUTDOWN. */
void runs_signal_all(struct runs *rs, int signal);
void runs_kill_all(struct runs *rs);
bool runs_any(const struct runs *rs);

/* run-streams.c */
/* Pipes for the child's ends in ret_child[3] (owned by the caller), the others watched. */
int run_streams_open(struct runs *rs, struct run *r, bool want_stdin, int ret_child[static 3],
	struct err *e) must_check;
void run_streams_close(struct runs *rs, struct run *r);
/* -EPROTO: more than was granted. */
int run_stdin_data(struct runs *rs, struct run *r, const struct frame *f) must_check;
void run_window(struct run *r, const struct frame *f);
/* 1: progress. */
int run_stdin_step(struct runs *rs, struct run *r);
int run_output_step(struct runs *rs, struct run *r, size_t which);
/* Called when all writers of the run have ended: notes what the pipes hold. */
void run_streams_drain(struct run *r);

#endif
