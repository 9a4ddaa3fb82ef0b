/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of sessions and requests that concern containers; their frames are listed in
 * proto/agent.h.
 *
 * A container is what a RUN made: it has an id, perhaps a name, and exists until its program has
 * ended; when it is kept (AGENT_KEEP, or its RUN was detached), until REMOVE. The agent is the only
 * one that knows the containers, so a rewind brings back those of the checkpoint.
 *
 * Where a message names a container, it is an id, a name, or the beginning of one id. Errors in
 * RUN_FAILED and REPLY: ENOENT no such container (the text says so), ENOTUNIQ several, EEXIST the
 * name is taken, ESRCH it has ended, EBUSY it runs or is attached.
 */
#ifndef KOSA8_PROTO_AGENT_SESSION_H
#define KOSA8_PROTO_AGENT_SESSION_H

#include "agent.h"

#define AGENT_REF_SIZE AGENT_NAME_SIZE
/* Containers that a sandbox holds, ended ones included. */
#define AGENT_CONTAINERS_MAX 256

/* WAIT */
struct agent_ref {
	char container[AGENT_REF_SIZE];
};

/* EXEC: environment over the container's own; user and cwd "": the container's. */
struct agent_exec {
	uint32_t flags; /* AGENT_STDIN_OPEN, AGENT_TTY */
	uint64_t timeout_ms;
	uint64_t wall_ns; /* as in agent_run */
	struct agent_size size;
	char container[AGENT_REF_SIZE];
	char *user;
	char *cwd;
	char **argv; /* at least one */
	char **env;
};
void agent_exec_release(struct agent_exec *x);

/* ATTACH: what the program writes from now on, and its end. stdin goes to it only when it was
 * started with AGENT_STDIN_OPEN; one client at a time. */
struct agent_attach {
	uint32_t flags; /* AGENT_STDIN_OPEN */
	struct agent_size size;
	char container[AGENT_REF_SIZE];
};

struct agent_logs {
	uint32_t follow;   /* 1: go on until the container ends */
	uint64_t since_ns; /* wall clock; older records are left out */
	char container[AGENT_REF_SIZE];
};

struct agent_signal {
	uint32_t signal; /* 1..64, to the container's program; SIGKILL ends all of it */
	char container[AGENT_REF_SIZE];
};

struct agent_remove {
	uint32_t force; /* 1: end it first */
	char container[AGENT_REF_SIZE];
};

enum agent_container_state {
	AGENT_CONTAINER_STARTING,
	AGENT_CONTAINER_RUNNING,
	AGENT_CONTAINER_ENDED,
	AGENT_CONTAINER_STATE_COUNT,
};
struct agent_container {
	uint32_t state;
	uint32_t flags;		       /* AGENT_STDIN_OPEN, AGENT_TTY, AGENT_KEEP: as it is now */
	uint32_t attached;	       /* 1: a client has its streams */
	struct agent_exit exit;	       /* ENDED */
	uint64_t created_ns, ended_ns; /* wall clock; 0: not yet */
	uint32_t processes;
	uint64_t memory_bytes; /* of its cgroup now */
	char id[16];
	char name[AGENT_NAME_SIZE];
	char image[72];
	char image_name[AGENT_TEXT_MAX];
	char command[AGENT_TEXT_MAX]; /* argv, joined and cut */
};

void agent_ref_encode(struct buf *b, const struct agent_ref *m);
int agent_ref_decode(struct cursor *c, struct agent_ref *ret) must_check;
void agent_size_encode(struct buf *b, const struct agent_size *m);
int agent_size_decode(struct cursor *c, struct agent_size *ret) must_check;
void agent_exec_encode(struct buf *b, const struct agent_exec *m);
int agent_exec_decode(struct cursor *c, struct agent_exec *ret) must_check;
void agent_attach_encode(struct buf *b, const struct agent_attach *m);
int agent_attach_decode(struct cursor *c, struct agent_attach *ret) must_check;
void agent_logs_encode(struct buf *b, const struct agent_logs *m);
int agent_logs_decode(struct cursor *c, struct agent_logs *ret) must_check;
void agent_signal_encode(struct buf *b, const struct agent_signal *m);
int agent_signal_decode(struct cursor *c, struct agent_signal *ret) must_check;
void agent_remove_encode(struct buf *b, const struct agent_remove *m);
int agent_remove_decode(struct cursor *c, struct agent_remove *ret) must_check;
void agent_container_encode(struct buf *b, const struct agent_container *m);
int agent_container_decode(struct cursor *c, struct agent_container *ret) must_check;

#endif
