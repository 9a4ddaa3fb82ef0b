/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host folders of one machine: a kosa8-fs each (fs-server.h), and the relay between them and
 * kosa8.fs. A rewind makes a second set for the next machine.
 *
 * The folder is opened here, once: what is served is what was checked, whatever becomes of its
 * path. A server that fails stays in the set as failed: its mount answers errors, and removing and
 * adding the mount cures it.
 *
 * Of mounts_when_ready(), mounts_tell_guest(), mounts_remove_wait() and mounts_save() one is under
 * way at a time (their operations are exclusive); each calls `done` once: with NULL, or with what
 * went wrong. It may be called before the function returns. mounts_free() forgets it.
 */
#ifndef KOSA8_SUPERVISOR_MOUNTS_H
#define KOSA8_SUPERVISOR_MOUNTS_H

#include "machine.h"

#include "../base/json.h"
#include "../store/spec-mounts.h"

struct mounts;

struct mounts_config {
	uv_loop_t *loop;
	int home_dirfd;	     /* borrowed */
	const char *sandbox; /* its name, for hints; borrowed */
};

typedef void (*mounts_done)(void *ctx, const struct err *why);

/* NULL: out of memory. */
struct mounts *mounts_new(const struct mounts_config *config);
/* Ends the servers. Allowed in `done`. Accepts NULL. */
void mounts_free(struct mounts *ms);

/* Opens the folder and starts its server. table_fd: from the checkpoint, borrowed; -1: none.
 * ERR_NOT_FOUND: the folder is gone. */
int mounts_add(
	struct mounts *ms, const struct spec_mount *m, int table_fd, struct err *e) must_check;
/* Ends its server. */
void mounts_remove(struct mounts *ms, uint32_t id);
/* The same, and waits until it has ended: the host's folder is in nobody's hands then. */
void mounts_remove_wait(struct mounts *ms, uint32_t id, mounts_done done, void *ctx);

/* When all servers that were started serve, or the first one failed. */
void mounts_when_ready(struct mounts *ms, mounts_done done, void *ctx);

/* The machine whose kosa8.fs it is; NULL: none. Frames from there go to mounts_frame(). */
void mounts_bind(struct mounts *ms, struct machine *m);
/* -EPROTO: a frame of a type that does not belong on kosa8.fs. */
int mounts_frame(struct mounts *ms, const struct frame *f, struct err *e) must_check;

/* Has the guest unmount these ids (what fails is only logged when `must` is false), and mount all
 * of the set that it was not told of yet. */
void mounts_tell_guest(struct mounts *ms, const uint32_t *gone, size_t gone_len, bool must,
	mounts_done done, void *ctx);
/* They are mounted in the machine that is being restored: it was told before its checkpoint. */
void mounts_set_told(struct mounts *ms, uint32_t id);

/* ERR_WRONG_STATE names a mount that failed: its table cannot be saved. */
int mounts_check(const struct mounts *ms, struct err *e) must_check;
/* Makes the files of mounts_table_name() in dirfd, all as of now. */
void mounts_save(struct mounts *ms, int dirfd, mounts_done done, void *ctx);
#define MOUNTS_TABLE_SIZE 24
void mounts_table_name(uint32_t id, char ret[static MOUNTS_TABLE_SIZE]);

/* [{"guest", "state": "starting", "mounted" or "failed", "error"}] */
json_t *mounts_status(const struct mounts *ms);

#endif
