/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The containers of the sandbox: each RUN's from its start until its program has ended; a kept
 * one until it is removed.
 *
 *   /disk/runs/FOLDER           layer (upper and work folder, keeper.h) of one that is not kept
 *   /disk/containers/ID/layer   that of a kept one, also when it has ended
 *   /disk/containers/ID/state   what it is (container-state.h)
 *   /disk/containers/ID/log     container-log.h
 *
 * States (agent_container.state): STARTING until its program runs, RUNNING, ENDED. `run` is set
 * until the last of its output was read.
 *
 * Who goes on using an entry in later steps pins it: a removed entry is found by nobody any more,
 * and is freed when nobody holds it.
 */
#ifndef KOSA8_GUEST_CONTAINERS_H
#define KOSA8_GUEST_CONTAINERS_H

#include "../proto/agent-session.h"
#include "cgroup.h"
#include "container-log.h"
#include "disk.h"
#include "keeper.h"

#include <sys/types.h>

#define CONTAINER_ID_SIZE 13
#define CONTAINER_LAYER_SIZE 64

struct run;

struct container_entry {
	struct agent_container is;     /* attached, processes, memory_bytes: container_describe() */
	struct run *run;	       /* NULL: it has ended */
	uint32_t mounts_serial;	       /* of the mounts when it was started (fs-mounts.h) */
	pid_t init;		       /* its first process, while there is one; else 0 */
	int cgroup_fd;		       /* -1: none any more */
	char folder[KEEPER_NAME_SIZE]; /* below /disk/runs; "": none, or it is kept */
	int dirfd;		       /* /disk/containers/ID; -1: it has none */
	struct container_log log;
	uint64_t log_records;	 /* grows with each record */
	char *user, *cwd, **env; /* what its program was started with; NULL when it has ended */
	unsigned execs;		 /* how many it had: numbers of their cgroups */
	unsigned helpers;	 /* parents of execs: processes that are not the container's */
	bool leftovers;		 /* of some of them processes went on */
	bool removing;		 /* it is being ended to be removed */
	uint32_t remover;	 /* the REMOVE request that waits for that; 0: nobody any more */
	bool removed;
	unsigned pins;
};

struct containers {
	struct container_entry *list[AGENT_CONTAINERS_MAX]; /* the oldest first */
	size_t len;
	struct cgroups *cgroups;
	struct disk *disk;
	struct keeper *keeper;
};

static inline bool container_is_kept(const struct container_entry *c)
{
	return c->is.flags & AGENT_KEEP;
}

bool container_id_is_valid(const char *id);
/* "" is valid: no name. */
bool container_name_is_valid(const char *name);

/* The kept containers that the disk has: all have ended. What is damaged is removed. */
void containers_load(struct containers *cs);
/* Lets go of the disk. Nothing is found any more. */
void containers_close(struct containers *cs);

/* A new one in state STARTING; takes user, cwd and env from m. EEXIST, EINVAL, ENOSPC. */
int containers_add(struct containers *cs, struct agent_run *m, struct container_entry **ret,
	struct err *e) must_check;
/* By id, name, or the beginning of one id. ENOENT, ENOTUNIQ. */
struct container_entry *containers_find(
	struct containers *cs, const char *ref, struct err *e) must_check;
/* From now on it has a log and a record, and stays when it has ended. */
int container_keep(struct containers *cs, struct container_entry *c, struct err *e) must_check;
/* Its state changed: writes the record of a kept one. */
void container_changed(struct containers *cs, struct container_entry *c);
/* Nothing when it has no log. */
void container_write_log(
	struct container_entry *c, enum log_which which, const void *data, size_t len);
/* A kept one has ended: lets go of what only a living one needs. */
void container_processes_gone(struct containers *cs, struct container_entry *c);
/* All of it but the pinned memory; folder and log are in the trash. It has no process any more. */
void containers_remove(struct containers *cs, struct container_entry *c);
/* The epoch ended: nobody waits for a REMOVE any more. */
void containers_forget_requests(struct containers *cs);
/* For messages: its name, or its id when it has none. */
const char *container_label(const struct container_entry *c);
void container_pin(struct container_entry *c);
void container_unpin(struct container_entry *c);

/* As LIST shows it. */
void container_describe(const struct container_entry *c, struct agent_container *ret);
/* The path of its layer in the agent's root. */
void container_layer(const struct container_entry *c, char ret[static CONTAINER_LAYER_SIZE]);

/* For containers.c and containers-load.c: an entry that is not in the list yet; one that leaves the
 * list, while what it has on the disk stays. */
struct container_entry *container_entry_new(void);
void container_entry_forget(struct containers *cs, struct container_entry *c);

#endif
