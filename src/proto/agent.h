/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire between supervisor and agent, over four virtio-serial ports:
 *
 *   kosa8.resume  supervisor -> agent only. One RESUME record (fixed size) after *every* time the
 *                 VM starts to run: after a restore and after the pause of a checkpoint.
 *   kosa8.mux     frames (base/frame.h) both ways: requests, replies, and the streams of sessions.
 *   kosa8.net     frames both ways: connections to servers in the guest (CONNECT).
 *   kosa8.fs      frames both ways: FUSE messages of the mounts; `stream` is the mount's id.
 *
 * Sessions. RUN, EXEC, ATTACH, LOGS, WAIT, LIST, COPY (agent-session.h, agent-files.h) and CONNECT
 * each open a stream. It carries RUN_STARTED and what its kind needs of data both ways within
 * windows and CONTAINER frames; and it ends with RUN_EXIT, or with RUN_FAILED instead of
 * RUN_STARTED. What a KILL or its timeout ends before it was started ends with RUN_EXIT, too.
 * Before RUN_EXIT come the ends of the streams that the kind has: STDOUT_EOF and STDERR_EOF of RUN,
 * EXEC, ATTACH, COPY; STDOUT_EOF of LOGS.
 * KILL ends a session and what it started: the tree of a RUN or EXEC, the connection of a CONNECT.
 * DETACH ends a session and nothing else: what a RUN or EXEC started goes on without a client.
 *
 * Epochs. Every restored VM gets an epoch that no earlier VM of that sandbox had. A RESUME with a
 * new epoch tells the agent that the host side is another one than when it was frozen: bytes may
 * have been lost on the mux in both directions, half a frame may be in its buffers. So the agent
 * drops all buffered input and output, discards mux input up to and including the record's 32-byte
 * nonce, writes the same nonce as the first bytes of its own output, and goes on with whole
 * frames; so on each of the three ports that carry frames. The supervisor does likewise: it writes
 * the nonce first, discards input up to the nonce, and sends nothing more until it has seen it (the
 * ports have no common order: the agent may have to find the nonce among bytes that came before the
 * record). The nonce is random and younger than the frozen state, so it cannot occur in old bytes.
 * Then the agent sends RESUMED. All streams of the old epoch are dead: the agent reads what their
 * programs write and drops it, their stdin is at its end, but for terminals and kept containers,
 * where an ATTACH may go on; the processes go on. Frames of another epoch are ignored by both
 * sides. A RESUME with the same epoch only sets clock and entropy and ends the quiescence; nothing
 * is lost on the mux and no nonce is sent.
 *
 * Quiescence. QUIESCE carries a number that grows with each attempt. The agent freezes all
 * containers (cgroup.freeze), stops reading their pipes, lets the FUSE requests that are out be
 * answered (until it stands still, kosa8.fs goes on both ways), flushes its output, and sends
 * QUIESCED
 * with that number as its last frame until a RESUME whose `quiesce` is >= that number arrives. A
 * QUIESCE whose number is <= the last RESUME's is ignored. After sending QUIESCE the supervisor
 * sends nothing on the mux until RESUME.
 *
 * Slots. What a READ brings does not go through the port: the relay has FS_SLOTS buffers of
 * FS_SLOT_SIZE (proto/fs.h), of which those of its pool stand at fixed places in the guest's
 * memory. FUSE_POOL names these places, as the first frame of an epoch on kosa8.fs (at most
 * FS_POOL_MAX; none when the guest could get no such memory). The supervisor writes an answer into
 * the slot that its request named, and then sends FUSE_SLOT. It writes into RAM only while the VM
 * runs and kosa8.fs is open, so not between QUIESCED and RESUME; then, and into slots that are not
 * in the pool, the answer goes through the port as FUSE_PART frames before the FUSE_SLOT. The
 * places are the guest's word: the supervisor writes to no address that is not that guest's RAM. A
 * slot is given to one request at a time, and slots end with their epoch.
 *
 * Flow control, per stream and direction: the sender may send as many data bytes as the receiver
 * has granted with WINDOW frames; nothing is granted at first. A sender that exceeds its window
 * breaks the protocol: the supervisor ends such a VM's streams with an error.
 */
#ifndef KOSA8_PROTO_AGENT_H
#define KOSA8_PROTO_AGENT_H

#include "../base/buf.h"
#include "../base/cursor.h"

#include <stdbool.h>

#define AGENT_PROTOCOL_VERSION 2
#define AGENT_PORT_MUX "kosa8.mux"
#define AGENT_PORT_RESUME "kosa8.resume"
#define AGENT_PORT_NET "kosa8.net"
#define AGENT_PORT_FS "kosa8.fs"

enum agent_type {
	/* supervisor -> agent. Requests carry a request number in `stream`; the agent answers each
	 * with one REPLY on the same number. Run frames carry the run's number (never reused in an
	 * epoch); requests and runs draw from the same counter. */
	AGENT_CONFIGURE = 1,	/* struct agent_configure; once, after a template was restored */
	AGENT_ATTACH_IMAGE = 2, /* struct agent_image: mount the LUN's squashfs */
	AGENT_RUN = 3,		/* struct agent_run; answered by RUN_STARTED or RUN_FAILED */
	AGENT_SIGNAL = 4,	/* u32 signal number, to the run's first process */
	AGENT_KILL = 5,		/* empty; kills the run's whole tree; RUN_EXIT follows */
	AGENT_STDIN = 6,	/* data */
	AGENT_STDIN_EOF = 7,	/* empty */
	AGENT_WINDOW = 8,	/* struct agent_window; both directions */
	AGENT_QUIESCE = 9,	/* u32 number */
	AGENT_SHUTDOWN = 10,	/* request; kills all runs, syncs, unmounts, replies, powers off */
	AGENT_PING = 11,	/* request */
	/* Sessions beside RUN; their messages are in proto/agent-session.h. */
	AGENT_EXEC = 12,   /* struct agent_exec: a program in a running container */
	AGENT_ATTACH = 13, /* struct agent_attach: the streams of a running container */
	AGENT_LOGS = 14,   /* struct agent_logs: records of proto/log.h as STDOUT */
	AGENT_WAIT = 15,   /* struct agent_ref: a container's end; RUN_EXIT is its own */
	AGENT_LIST = 16,   /* empty; a CONTAINER frame each, then RUN_EXIT */
	AGENT_COPY = 17,   /* struct agent_copy: a tree (proto/tree.h) as STDIN or STDOUT */
	AGENT_DETACH = 18, /* empty; ends the session: RUN_EXIT with AGENT_END_DETACHED */
	AGENT_RESIZE = 19, /* struct agent_size: the terminal of a RUN, EXEC or ATTACH */
	/* More requests. */
	AGENT_SIGNAL_CONTAINER = 20, /* struct agent_signal */
	AGENT_REMOVE = 21,	     /* struct agent_remove; the reply comes when it is gone */
	AGENT_MOUNT = 22,	     /* struct agent_mount */
	AGENT_UNMOUNT = 23,	     /* u32 id of the mount */
	/* On kosa8.net. */
	AGENT_CONNECT = 24, /* u16 port: a TCP connection to a server on the guest's loopback */
	/* On kosa8.fs, both ways. */
	AGENT_FUSE = 25,      /* one message as /dev/fuse has it (linux/fuse.h) */
	AGENT_FUSE_SLOT = 26, /* to the supervisor: a request, then u32 slot for its answer.
			       * Back: struct fuse_out_header; the rest is in the slot */
	AGENT_FUSE_PART = 27, /* to the agent: u64 unique, u32 offset, data for that slot */
	AGENT_FUSE_POOL =
		28, /* to the supervisor, stream 0: u64 guest-physical address of each slot */

	/* agent -> supervisor */
	AGENT_HELLO = 65, /* struct agent_hello; once after boot, before a template is saved */
	AGENT_REPLY = 66, /* struct agent_reply */
	AGENT_RUN_STARTED = 67, /* empty: the program was executed */
	AGENT_RUN_FAILED = 68,	/* struct agent_reply: it could not be; the run is over */
	AGENT_STDOUT = 69,	/* data */
	AGENT_STDERR = 70,	/* data */
	AGENT_STDOUT_EOF = 71,	/* empty */
	AGENT_STDERR_EOF = 72,	/* empty */
	AGENT_RUN_EXIT = 73,	/* struct agent_exit; the last frame of a run, after both EOFs */
	AGENT_QUIESCED = 74,	/* u32 number */
	AGENT_RESUMED = 75,	/* empty; on the new epoch */
	AGENT_CONTAINER = 76,	/* struct agent_container */
	AGENT_ENDED = 77,	/* struct agent_container, stream 0: a kept container has ended */
};

/* Data frames from the agent hold at most this much (one virtio console buffer is 32 KiB). */
#define AGENT_DATA_MAX (32u * 1024 - 16)
/* A window that the supervisor grants is never larger. */
#define AGENT_WINDOW_MAX (1024u * 1024)
#define AGENT_TEXT_MAX 256
/* argv and env together: RUN is one frame. (Linux takes 128 KiB a single argument.) */
#define AGENT_ARGS_BYTES_MAX (240u * 1024)
#define AGENT_ARGS_MAX 4096

struct agent_hello {
	uint32_t version;
	char kernel[AGENT_TEXT_MAX]; /* uname -r */
};

struct agent_configure {
	char hostname[64];
	unsigned char machine_id[16];
};

struct agent_image {
	uint32_t lun;
	char digest[72]; /* hex, without "sha256:": the name of the mount */
};

/* status: 0 or a positive Linux errno; text: for people, may be empty. For RUN_FAILED, what failed:
 * AGENT_FAIL_*. */
enum agent_fail {
	AGENT_FAIL_NONE,
	AGENT_FAIL_NOT_FOUND, /* the program: exit 127 */
	AGENT_FAIL_NOT_EXEC,  /* the program: exit 126 */
	AGENT_FAIL_SETUP,     /* user, workdir, mounts, cgroup: exit 125 */
};
struct agent_reply {
	uint32_t status;
	uint32_t fail;
	char text[AGENT_TEXT_MAX];
};

#define AGENT_STDIN_OPEN 1u /* stdin comes; else it is /dev/null, and with TTY nothing is typed */
#define AGENT_TTY 2u	    /* a terminal of `size`; all output is STDOUT */
#define AGENT_KEEP 4u	    /* RUN: detached from the start. RUN_STARTED, then RUN_EXIT, DETACHED */

struct agent_size {
	uint16_t rows, columns; /* 0: not known */
};

#define AGENT_NAME_SIZE 64

struct agent_run {
	uint32_t flags;
	uint64_t timeout_ms; /* 0: none; counted on the guest's monotonic clock */
	uint64_t wall_ns;    /* the host's clock now: corrects a guest clock that is off by 0.5 s */
	uint64_t memory_bytes; /* cgroup memory.max; 0: none */
	uint32_t pids;	       /* cgroup pids.max; 0: none */
	uint32_t cpu_milli;    /* cgroup cpu.max in thousandths of a CPU; 0: none */
	struct agent_size size;
	char *id;	  /* [a-z0-9]{12}: names cgroup and folders */
	char *name;	  /* "" or [a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}; one container each */
	char *image;	  /* digest as in agent_image */
	char *image_name; /* for people: as it was asked for */
	char *hostname;
	char *user;  /* "", name, uid, name:group, uid:gid: resolved in the image */
	char *cwd;   /* absolute */
	char **argv; /* at least one */
	char **env;
};
void agent_run_release(struct agent_run *r);

enum agent_end {
	AGENT_END_EXITED,
	AGENT_END_SIGNALED,
	AGENT_END_TIMEOUT,
	AGENT_END_KILLED,
	AGENT_END_DETACHED, /* the session ended, its program goes on */
	AGENT_END_LOST,	    /* of a container: its sandbox was stopped or crashed */
	AGENT_END_COUNT,
};
struct agent_exit {
	uint32_t how;  /* enum agent_end; TIMEOUT and KILLED: ended by the agent */
	uint32_t code; /* exit code or signal number */
	uint32_t oom; /* 1: SIGKILL (or exit code 137) after the kernel killed for lack of memory in
		       it */
};

enum agent_which { AGENT_WHICH_STDIN, AGENT_WHICH_STDOUT, AGENT_WHICH_STDERR };
struct agent_window {
	uint32_t which; /* enum agent_which */
	uint32_t bytes; /* added to what was granted before */
};

/* The record on the resume port. */
#define AGENT_RESUME_SIZE 128
#define AGENT_NONCE_SIZE 32
#define AGENT_ENTROPY_SIZE 48
struct agent_resume {
	uint32_t epoch;
	uint32_t quiesce;
	uint64_t wall_ns; /* the host's clock */
	unsigned char nonce[AGENT_NONCE_SIZE];
	unsigned char entropy[AGENT_ENTROPY_SIZE];
};
void agent_resume_encode(const struct agent_resume *r, unsigned char ret[static AGENT_RESUME_SIZE]);
int agent_resume_decode(const unsigned char *data, struct agent_resume *ret) must_check;

/* Encoders append the payload to b (sticky failure); decoders return 0 or -EPROTO and write
 * nothing on failure. Decoded agent_run is released by its owner. */
void agent_hello_encode(struct buf *b, const struct agent_hello *m);
int agent_hello_decode(struct cursor *c, struct agent_hello *ret) must_check;
void agent_configure_encode(struct buf *b, const struct agent_configure *m);
int agent_configure_decode(struct cursor *c, struct agent_configure *ret) must_check;
void agent_image_encode(struct buf *b, const struct agent_image *m);
int agent_image_decode(struct cursor *c, struct agent_image *ret) must_check;
void agent_reply_encode(struct buf *b, const struct agent_reply *m);
int agent_reply_decode(struct cursor *c, struct agent_reply *ret) must_check;
void agent_run_encode(struct buf *b, const struct agent_run *m);
int agent_run_decode(struct cursor *c, struct agent_run *ret) must_check;
void agent_exit_encode(struct buf *b, const struct agent_exit *m);
int agent_exit_decode(struct cursor *c, struct agent_exit *ret) must_check;
void agent_window_encode(struct buf *b, const struct agent_window *m);
int agent_window_decode(struct cursor *c, struct agent_window *ret) must_check;

#endif
