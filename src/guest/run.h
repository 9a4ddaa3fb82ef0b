/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runs: what has a child process, three streams and perhaps a client. The program of a
 * container, an exec in one, or a copy. From RUN, EXEC, COPY to the last trace being removed.
 *
 *   FREE       no run
 *   WAITING    an exec in a container that starts
 *   STARTING   its child prepares; nothing is read or written yet.
 *              the child's report goes to RUNNING (RUN_STARTED) or FAILED (RUN_FAILED)
 *   RUNNING    streams flow within their windows
 *   FAILED     reported; waits for the child's end
 *   DRAINING   the program has ended, and of a container all its processes: what the pipes hold at
 *              that moment goes out as the windows allow. Then both EOFs and RUN_EXIT: OVER
 *   OVER       no frame any more; when the child has ended too: FREE
 *
 * A run that the agent ended (timeout, KILL) does not wait for windows: what does not fit is lost.
 *
 * Clients. A run has one or none: who sent RUN, EXEC, COPY, or, for a container, who sent ATTACH
 * later. Without a client output is read and dropped, after it went into the log of a kept
 * container. DETACH and the end of an epoch take the client away; then stdin is at its end, but for
 * a kept container's and for a terminal, where a later ATTACH may go on. Timeouts hold.
 */
#ifndef KOSA8_GUEST_RUN_H
#define KOSA8_GUEST_RUN_H

#include "../base/frame.h"
#include "container-report.h"
#include "containers.h"
#include "fs-mounts.h"
#include "loop.h"
#include "mux.h"
#include "run-streams.h"

#include <stdint.h>
#include <sys/types.h>

#define RUNS_MAX 128 /* programs, execs and copies that are alive */

enum run_kind { RUN_PROGRAM, RUN_EXEC, RUN_COPY };
enum run_state {
	RUN_FREE,
	RUN_WAITING,
	RUN_STARTING,
	RUN_RUNNING,
	RUN_FAILED,
	RUN_DRAINING,
	RUN_OVER
};

struct run_client {
	bool present;
	bool attached; /* by ATTACH: its end is not the program's */
	uint32_t stream;
};

struct run {
	enum run_kind kind;
	enum run_state state;
	uint32_t flags; /* AGENT_STDIN_OPEN, AGENT_TTY */
	struct run_client client;
	struct container_entry *container; /* EXEC: until its child was waited for. COPY: NULL */
	struct agent_exec *request;	   /* WAITING: what is to be started */
	pid_t child;			   /* init, or the exec's parent, or the copy */
	int program_pidfd;		   /* -1: not started */
	uint64_t pending_signals;	   /* came while STARTING: bit N - 1 */
	bool pending_detach;		   /* DETACH or KEEP: when it is RUNNING */
	int cgroup_fd;			   /* EXEC: its own; PROGRAM: the container's, borrowed */
	unsigned exec_number;
	uint64_t oom_kills; /* before it began */
	struct watch report;
	struct run_input in;
	struct run_output out[2]; /* stdout, stderr */
	int64_t deadline_ms;	  /* -1: none */
	bool killed;		  /* somebody asked for SIGKILL: no end for lack of memory */
	bool stopped;		  /* it ran when the sandbox was stopped */
	bool forced;		  /* the agent ended it: `how` is TIMEOUT or KILLED */
	enum agent_end how;
	bool has_status;
	int status; /* wait status of the program, or of the child when it did not report */
	struct agent_exit exit; /* DRAINING and later */
};

struct runs {
	struct run run[RUNS_MAX];
	struct run *active[RUNS_MAX]; /* those that are not FREE */
	size_t active_len;
	size_t turn;   /* whose output goes first */
	bool any_over; /* there is something for runs_clean() */
	struct loop *loop;
	struct mux *mux;
	struct cgroups *cgroups;
	struct disk *disk;
	struct keeper *keeper;
	struct containers *containers;
	struct fs_mounts *mounts;
	char hostname[64];   /* for runs that name none */
	char machine_id[33]; /* hex */
};

void runs_init(struct runs *rs);
/* A child of this pid ended. True if it was a run's. */
bool runs_reaped(struct runs *rs, pid_t pid, int status);
/* One bounded round of reports, streams and timeouts; 1: there is more to do. */
int runs_step(struct runs *rs);
/* Removes what is OVER; after the output was flushed, so that no reply waits for it. */
void runs_clean(struct runs *rs);
int64_t runs_deadline_ms(const struct runs *rs);
/* For the mounts (fs-mounts.h); ctx is struct runs. */
fs_containers runs_running;
/* The epoch ended: no run has a client any more. */
void runs_forget_clients(struct runs *rs);
/* The sandbox is being stopped: SIGTERM to all; what that ends is recorded as lost. */
void runs_stop(struct runs *rs);
void runs_kill_all(struct runs *rs);
bool runs_any(const struct runs *rs);

#endif
