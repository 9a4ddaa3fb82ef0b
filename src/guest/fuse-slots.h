/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where answers are put that do not come through the port (proto/agent.h, "Slots"): the pool, which
 * all mounts share, and one slot more for each mount, in memory that the host is not told about.
 *
 * The pool is huge pages, which the kernel never moves, of a shared mapping, which fork() does not
 * copy. When there are none, the pool is empty, and all goes by the mounts' own slots.
 *
 * A mount that holds none of the pool's when they are all taken uses its own, so that no mount
 * waits for the server of another.
 */
#ifndef KOSA8_GUEST_FUSE_SLOTS_H
#define KOSA8_GUEST_FUSE_SLOTS_H

#include "../proto/fs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FUSE_NO_SLOT (-1)
#define FUSE_OWN_SLOT ((int)FS_POOL_MAX)
/* What the pool takes, in huge pages of 2 MB. */
#define FUSE_POOL_HUGE_PAGES "2"

struct fuse_slot_owner {
	uint32_t mount; /* 0: the slot is free */
	uint64_t unique;
};

struct fuse_slots {
	unsigned char *pool;
	size_t len; /* of the pool's */
	uint64_t physical[FS_POOL_MAX];
	struct fuse_slot_owner owner[FS_POOL_MAX];
	size_t dirty[FS_POOL_MAX]; /* bytes that may not be zero */
};

/* Reserves the pages: before memory is in pieces. */
void fuse_slots_reserve(void);
void fuse_slots_open(struct fuse_slots *s);
/* FUSE_NO_SLOT when all are taken. */
int fuse_slots_take(struct fuse_slots *s, uint32_t mount, uint64_t unique);
bool fuse_slots_holds(const struct fuse_slots *s, uint32_t mount);
/* The answer has come, so that no more is written there; of this much at most. Also for a mount
 * that is gone by then: its slots are not free before. */
void fuse_slots_answered(struct fuse_slots *s, uint32_t mount, uint64_t unique, size_t dirty);
/* Nobody writes any more. */
void fuse_slots_new_epoch(struct fuse_slots *s);
unsigned char *fuse_slots_at(const struct fuse_slots *s, int slot);
/* Zeroes what was used, so that a checkpoint does not hold it. */
void fuse_slots_clean(struct fuse_slots *s);

#endif
