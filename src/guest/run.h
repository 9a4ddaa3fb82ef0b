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

#include <stdint.h>
#include <sys/types.h>

/* Programs and execs that are alive. */
#define RUNS_MAX 128
/* Bytes of stdin that the agent holds for a run: what it grants at first. */
#define RUN_STDIN_WINDOW (128u * 1024)

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

struct run_output {
	struct watch pipe;
	uint32_t window; /* granted and not used */
	uint32_t left;	 /* DRAINING: bytes in the pipe that are this run's own */
	bool ended;	 /* nothing is read any more */
	bool eof_sent;	 /* to the client */
};

struct run_input {
	struct watch pipe;
	struct buf data;
	uint32_t granted;  /* the client may send so much more */
	uint32_t consumed; /* written since the last grant */
	bool eof;
	bool line_begun; /* a terminal: something was typed since the last end of a line */
	bool end_typed;	 /* a terminal: for this client */
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
/* For SHUTDOWN. */
void runs_signal_all(struct runs *rs, int signal);
void runs_kill_all(struct runs *rs);
bool runs_any(const struct runs *rs);

/* run-start.c: RUN and EXEC frames; take what m holds. Refusals are sent as RUN_FAILED. */
void runs_start(struct runs *rs, uint32_t stream, struct agent_run *m);
void runs_exec(struct runs *rs, uint32_t stream, struct agent_exec *m);
/* A run with this client, or NULL: RUN_FAILED was sent. */
struct run *run_new(struct runs *rs, enum run_kind kind, uint32_t stream);
/* An exec that waits: starts it when its container runs. 1: it did something. */
int run_waiting_step(struct runs *rs, struct run *r);
void run_send_failed(struct runs *rs, uint32_t stream, const struct err *e);

/* run.c, for the others. It cannot be started: RUN_FAILED. */
void run_fail(struct runs *rs, struct run *r, const struct err *e);
/* Ends the whole tree; what follows comes through runs_reaped(). */
void run_force(struct run *r, enum agent_end how);
/* To the program itself. */
void run_signal(struct run *r, int signal);

/* run-client.c */
/* A frame of a session. False: no run has this client. */
bool runs_frame(struct runs *rs, const struct frame *f);
/* ATTACH; refusals are sent as RUN_FAILED. */
void runs_attach(struct runs *rs, uint32_t stream, const struct agent_attach *m);
struct run *runs_find(struct runs *rs, uint32_t stream);
/* Ends the session with RUN_EXIT; the run has no client any more. */
void run_client_end(struct runs *rs, struct run *r, const struct agent_exit *exit);
/* What DETACH means for it: of a RUN, that the container is kept. */
void run_detach(struct runs *rs, struct run *r);

/* run-streams.c */
/* Pipes for the child's ends in ret_child[3] (owned by the caller), the others watched. With a
 * terminal there are none: the terminal comes with its STARTED. */
int run_streams_open(
	struct runs *rs, struct run *r, int ret_child[static 3], struct err *e) must_check;
int run_streams_terminal(struct runs *rs, struct run *r, int master, struct err *e) must_check;
void run_streams_close(struct runs *rs, struct run *r);
/* Lets the client send what there is room for. */
void run_stdin_grant(struct runs *rs, struct run *r);
/* -EPROTO: more than was granted. */
int run_stdin_data(struct runs *rs, struct run *r, const struct frame *f) must_check;
void run_window(struct run *r, const struct frame *f);
void run_resize(struct run *r, const struct agent_size *size);
/* 1: progress. */
int run_stdin_step(struct runs *rs, struct run *r);
int run_output_step(struct runs *rs, struct run *r, size_t which);
void run_send_eof(struct runs *rs, struct run *r, size_t which);
/* Called when all writers of the run have ended: notes what the pipes hold. */
void run_streams_drain(struct run *r);

#endif
