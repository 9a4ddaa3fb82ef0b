/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's folders that are mounted in the guest: from MOUNT to UNMOUNT, in all containers.
 *
 *   /run/kosa8/mounts/ID/fs    the FUSE file system; the relay mounts and unmounts it
 *   /run/kosa8/mounts/ID/cow   for AGENT_MOUNT_COW: an overlay on it
 *   /disk/cow/ID/{upper,work}  what was written there; kept from one start to the next
 *
 *   FREE
 *   OPENING     the relay was asked; until INIT was answered
 *   LAYERING    cow: a job mounts the overlay
 *   ATTACHING   new containers see it; a job attaches it to those that run, when none is left that
 *               was started before and is not set up yet
 *   LIVE        MOUNT was answered
 *   DETACHING   new containers do not see it; a job writes back what is cached and takes it out of
 *               those that run
 *   CLOSING     the relay was asked to end it; then UNMOUNT is answered: FREE
 *
 * What fails before LIVE goes on to DETACHING, and MOUNT is answered with the error when it is
 * FREE. All that could wait for a server is done in jobs, child processes of the agent's, or in a
 * container's init: never by the agent itself. A job that takes FS_JOB_MS loses its server: the
 * mount is closed, which makes everything that waits for it fail.
 */
#ifndef KOSA8_GUEST_FS_MOUNTS_H
#define KOSA8_GUEST_FS_MOUNTS_H

#include "../base/frame.h"
#include "../proto/agent-files.h"
#include "disk.h"
#include "keeper.h"
#include "mux.h"
#include "relay.h"

#include <sys/types.h>

#define FS_INIT_MS 5000
#define FS_JOB_MS 5000
/* How long a container that is being set up is waited for. */
#define FS_STARTING_MS 2000
#define FS_CONTAINERS_MAX AGENT_CONTAINERS_MAX

enum fs_state { FS_FREE, FS_OPENING, FS_LAYERING, FS_ATTACHING, FS_LIVE, FS_DETACHING, FS_CLOSING };

struct fs_mount {
	enum fs_state state;
	uint32_t id, mode;
	char *path;
	bool visible;			 /* to containers that start now */
	bool discard;			 /* what a cow mount wrote goes with it */
	uint32_t stream, unmount_stream; /* to be answered; 0: nobody waits */
	uint32_t serial;		 /* containers of a lower one do not see it as it is now */
	bool relay_done;		 /* what it was asked for; its answer is in `result` */
	pid_t job;			 /* 0: none */
	bool forced;			 /* the job took too long */
	int64_t deadline_ms;		 /* of the state; -1: none */
	struct agent_reply result, failure;
};

/* Memory that the agent shares with jobs and inits. */
struct fs_owner {
	bool known;
	uint32_t uid, gid, ticket;
};
struct fs_shared {
	struct agent_reply job[RELAY_MOUNTS_MAX];
	struct fs_owner owner[RELAY_MOUNTS_MAX];
};

/* The first processes of the containers of a lower serial than this whose program runs, at most
 * max. *ret_starting: one of them is being set up. */
typedef size_t fs_containers(
	void *ctx, uint32_t serial, pid_t *ret, size_t max, bool *ret_starting);

struct fs_mounts {
	struct fs_mount mount[RELAY_MOUNTS_MAX];
	struct fs_shared *shared;
	struct relay *relay;
	struct mux *mux;
	struct disk *disk;
	struct keeper *keeper;
	uint32_t serial; /* grows with every change of what is visible; noted by each container */
	fs_containers *containers;
	void *containers_ctx;
};

int fs_mounts_init(struct fs_mounts *fm, struct err *e) must_check;
/* Takes what m holds. Answered with REPLY, now or later. */
void fs_mounts_add(struct fs_mounts *fm, uint32_t stream, struct agent_mount *m);
void fs_mounts_remove(struct fs_mounts *fm, uint32_t stream, uint32_t id);
/* MOUNTED and UNMOUNTED of the relay's: only noted, so also while nothing may be sent. */
void fs_mounts_relay(struct fs_mounts *fm, const struct relay_message *m);
void fs_mounts_relay_lost(struct fs_mounts *fm);
/* A child of this pid ended. True if it was a job. */
bool fs_mounts_reaped(struct fs_mounts *fm, pid_t pid, int status);
/* 1: there is more to do. */
int fs_mounts_step(struct fs_mounts *fm);
int64_t fs_mounts_deadline_ms(const struct fs_mounts *fm);
/* Nobody of the old epoch waits for an answer, and the servers are others. */
void fs_mounts_new_epoch(struct fs_mounts *fm);
/* For SHUTDOWN: all go; what cow mounts hold stays. */
void fs_mounts_close(struct fs_mounts *fm);
bool fs_mounts_any(const struct fs_mounts *fm);

/* What containers see: the folder that is cloned for them. */
const char *fs_mount_dir(const struct fs_mount *m, char buf[static RELAY_PATH_SIZE]);

/* fs-jobs.c: run in a child. */
int fs_job_layer(const struct fs_mount *m, struct err *e) must_check;
int fs_job_detach(const struct fs_mount *m, const pid_t *inits, size_t n, struct err *e) must_check;

#endif
