/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disk of a running QEMU: block nodes L<id> (qcow2) over F<id> (file) for each layer, over one
 * node for the template's disk.raw; the top one is the guest's disk.
 *
 * Layers are opened without a backing node and then linked in one blockdev-reopen, from the top
 * down: QEMU 7.2 rewrites the names of all nodes below for each link, which made bottom-up linking
 * of 300 layers take 6 s, against 0.6 s this way. Files come as fd sets. Locks are off: QEMU's
 * lock would collide with itself, as it belongs to the descriptor that stays in the set when the
 * file is reopened read-only; the sandbox's own lock guards the folder.
 */
#ifndef KOSA8_VM_CHAIN_H
#define KOSA8_VM_CHAIN_H

#include "layer-file.h"
#include "qmp.h"

#include <stdbool.h>

#define CHAIN_NODE "L"
#define CHAIN_FILE "F"
#define CHAIN_BASE "base"
#define CHAIN_MERGE_JOB "merge"

struct chain_layer {
	char id[LAYER_ID_SIZE];
	int64_t set;
};
struct chain {
	int layers_dirfd; /* owned */
	uint64_t disk_bytes;
	struct chain_layer *layers; /* from the bottom to the top */
	size_t len;
	int64_t next_set;
	int64_t old_top_set; /* of a former top whose writable descriptor QEMU still has; 0: none */
	char merging[LAYER_ID_SIZE]; /* the child of the merge that runs; "" none */
};
/* Copies the ids and the descriptor; nothing is opened yet. first_set: unused numbers begin here,
 * top_set is the top layer's. */
int chain_init(struct chain *c, int layers_dirfd, uint64_t disk_bytes, const char *const *ids,
	size_t len, int64_t top_set, int64_t first_set, struct err *e) must_check;
void chain_release(struct chain *c);
const char *chain_top(const struct chain *c);

/* Writes what the host caches of the top to the disk. Best effort. */
void chain_sync(const struct chain *c);

/* The top's -blockdev option: malloc'ed JSON, NULL when out of memory. */
char *chain_top_options(const char *top, int64_t set);
/* Opens everything below the top and links it. */
int chain_open(struct chain *c, struct qmp *q, int base_fd, struct err *e) must_check;

/* Freezes the top under the layer `id`. Nothing has changed on failure. */
int chain_push(struct chain *c, struct qmp *q, const char *id, struct err *e) must_check;
/* After the VM runs again: QEMU gives up what it could still write the former top with. */
int chain_close_old_top(struct chain *c, struct qmp *q, struct err *e) must_check;

/* A job that brings what child lacks of the layer below into child. */
int chain_merge(struct chain *c, struct qmp *q, const char *child, struct err *e) must_check;
/* The job has ended: the layer below child leaves the chain if it went well. */
int chain_merge_ended(struct chain *c, struct qmp *q, bool ok, struct err *e) must_check;

#endif
