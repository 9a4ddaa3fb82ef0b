/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slots in the guest's memory that answers of its mounts are written into (proto/agent.h,
 * "Slots"). Where they are is the guest's word: each is checked against its RAM when it is named
 * and when it is written to.
 */
#ifndef KOSA8_SUPERVISOR_FS_POOL_H
#define KOSA8_SUPERVISOR_FS_POOL_H

#include "link.h"

#include "../proto/fs.h"
#include "../vm/vm.h"

struct fs_pool {
	uint64_t at[FS_POOL_MAX]; /* guest-physical */
	uint32_t len;		  /* 0: not named in this epoch */
};

/* ERR_PROTOCOL: it is malformed, was named before, or lies outside of the VM's RAM. */
int fs_pool_name(
	struct fs_pool *p, const struct vm *vm, const struct frame *f, struct err *e) must_check;

struct fs_answer {
	uint32_t mount, slot;
	uint64_t unique;
	const void *header; /* struct fuse_out_header */
	const void *data;
	size_t data_len;
};
/* Brings it into its slot, by the shortest way that the state of the link allows, and sends
 * FUSE_SLOT. */
void fs_pool_answer(
	const struct fs_pool *p, struct vm *vm, struct link *l, const struct fs_answer *a);

#endif
