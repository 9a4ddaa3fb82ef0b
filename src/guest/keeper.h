/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper: a helper process of the agent's for slow work on the disk, so that no run waits for
 * it. It makes run folders ahead of their use, and removes used ones:
 *
 *   /disk/runs/NAME/upper   with proc, sys, dev, workspace and etc/{hostname,hosts,resolv.conf,
 *                           machine-id}: mount points and files that every container needs,
 *                           whatever its image has there
 *   /disk/runs/NAME/work
 *
 * One packet is one struct keeper_message. The keeper sends READY for each folder, KEEPER_SPARES
 * ahead; the agent sends TAKEN (make another), REMOVE, and SYNC (write the record of a kept
 * container to the disk). A keeper that dies is started anew; a
 * folder that is not there in time is made by the agent itself.
 */
#ifndef KOSA8_GUEST_KEEPER_H
#define KOSA8_GUEST_KEEPER_H

#include "../base/err.h"
#include "disk.h"
#include "loop.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KEEPER_SPARES 4
#define KEEPER_NAME_SIZE 24

enum keeper_op { KEEPER_READY = 1, KEEPER_TAKEN, KEEPER_REMOVE, KEEPER_SYNC };
struct keeper_message {
	uint32_t op;
	char name[KEEPER_NAME_SIZE];
};

struct keeper {
	struct loop *loop;
	struct watch socket;
	pid_t pid; /* 0: none */
	char spares[KEEPER_SPARES][KEEPER_NAME_SIZE];
	size_t spares_len;
	unsigned owed;	     /* TAKEN messages to be sent */
	uint32_t generation; /* of keeper processes: part of the names */
};

void keeper_init(struct keeper *k, struct loop *loop);
/* Starts the process; the disk is mounted. */
int keeper_start(struct keeper *k, const struct disk *d, struct err *e) must_check;
/* Takes in what became READY; asks for more when few are left. (Not at once when one is taken: the
 * keeper's work would compete with the start of the run.) */
void keeper_step(struct keeper *k);
/* A folder for a run: a spare one, or made now. */
int keeper_take(
	struct keeper *k, int runs_fd, char ret[static KEEPER_NAME_SIZE], struct err *e) must_check;
void keeper_remove(struct keeper *k, const char *name);
/* Something was put into the trash. */
void keeper_empty_trash(struct keeper *k);
/* The record of the kept container `id` was written and should survive a crash. */
void keeper_sync(struct keeper *k, const char *id);
/* What the keeper makes: dirfd/NAME with upper and work. */
int keeper_make_folder(int dirfd, const char *name) must_check;
/* True when this was the keeper's pid; it has to be started again. */
bool keeper_reaped(struct keeper *k, pid_t pid);
void keeper_kill(struct keeper *k);

#endif
