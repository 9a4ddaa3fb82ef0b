/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay: a process of the agent's that carries FUSE messages between /dev/fuse and the port
 * kosa8.fs, so that a request waits for nothing that the agent does. It is started before the
 * template is saved and lives as long as the guest.
 *
 * One packet on its control socket is one struct relay_message:
 *
 *   agent -> relay   MOUNT     mounts on relay_path(id); answered by MOUNTED when INIT was
 *                    UNMOUNT   aborts the connection (what is out fails with ENOTCONN) and
 *                              detaches; answered by UNMOUNTED
 *                    STAND     no more requests are read; what is out may be answered until
 *                              deadline_ms; answered by STILL, after which nothing is done
 *                    RESUME    goes on as before
 *                    EPOCH     goes on in a new epoch (proto/agent.h)
 *
 * The state of the relay:
 *
 *   RUNNING    requests and answers flow
 *   STANDING   answers flow
 *   STILL      neither the port nor /dev/fuse is touched
 */
#ifndef KOSA8_GUEST_RELAY_H
#define KOSA8_GUEST_RELAY_H

#include "../base/err.h"
#include "../proto/agent.h"
#include "loop.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PATH_MOUNTS "/run/kosa8/mounts"
#define RELAY_PATH_SIZE 64
/* Mounts at once. */
#define RELAY_MOUNTS_MAX 32

enum relay_op {
	RELAY_MOUNT = 1,
	RELAY_UNMOUNT,
	RELAY_STAND,
	RELAY_RESUME,
	RELAY_EPOCH,
	RELAY_MOUNTED,
	RELAY_UNMOUNTED,
	RELAY_STILL,
};
struct relay_message {
	uint32_t op;
	uint32_t id;	 /* of a mount; STAND, STILL: the number of the QUIESCE */
	uint32_t status; /* MOUNTED: 0 or an errno, with text */
	bool cow;
	uint32_t epoch;
	int64_t deadline_ms;
	unsigned char nonce[AGENT_NONCE_SIZE];
	char text[AGENT_TEXT_MAX];
};

struct relay {
	struct watch socket;
	pid_t pid; /* 0: none */
};

/* Where a mount's file system is; `what` is "fs". (An overlay on it is "cow".) */
void relay_path(uint32_t id, const char *what, char ret[static RELAY_PATH_SIZE]);

void relay_init(struct relay *r);
/* Takes the port's descriptor, on failure too. */
int relay_start(struct relay *r, struct loop *loop, int port, struct err *e) must_check;
/* A relay that is gone or does not take messages: false. */
bool relay_send(struct relay *r, const struct relay_message *m);
void relay_stand(struct relay *r, uint32_t number, int64_t deadline_ms);
void relay_resume(struct relay *r);
void relay_new_epoch(struct relay *r, uint32_t epoch, const unsigned char *nonce);
/* 1 with the next message of the relay's, or 0. */
int relay_next(struct relay *r, struct relay_message *ret) must_check;
/* True when this was the relay's pid. It is not started again: its mounts are gone with it. */
bool relay_reaped(struct relay *r, struct loop *loop, pid_t pid);

/* relay-main.c: the process itself. */
_Noreturn void relay_main(int control, int port);

#endif
