/* SPDX-License-Identifier: Apache-2.0 */
/* What mounts.c (the servers) and mounts-guest.c (what the guest is told) share. */
#ifndef KOSA8_SUPERVISOR_MOUNTS_INTERNAL_H
#define KOSA8_SUPERVISOR_MOUNTS_INTERNAL_H

#include "mounts.h"

enum wait { WAIT_NONE, WAIT_READY, WAIT_GUEST, WAIT_SAVE, WAIT_GONE };

struct mount {
	struct mounts *ms;
	struct spec_mount spec; /* a copy */
	struct fs_server *server;
	bool told;   /* the guest was asked to mount it */
	bool saving; /* its table is being written */
	char why[ERR_WHAT_MAX];
	struct mount *next;
};

/* A request to the guest that waits for its reply; outlives the set. */
struct ask {
	struct mounts *ms; /* NULL: nobody wants to know any more */
	uint32_t id;
	bool unmount, must;
	struct ask *next;
};

struct mounts {
	struct mounts_config config;
	struct mount *list;
	struct fs_server *going; /* removed, and waited for; NULL: none */
	struct machine *machine;
	struct ask *asks;
	enum wait wait;
	bool failed; /* of what is waited for; why holds the first reason */
	struct err why;
	mounts_done done;
	void *ctx;
	uv_timer_t timer;
	uv_prepare_t prepare; /* active while answers are not read */
	unsigned handles;
};

/* What is waited for begins, and fails or is done when it is complete. */
void mounts_begin_wait(
	struct mounts *ms, enum wait wait, uint64_t limit_ms, mounts_done done, void *ctx);
void mounts_note_failure(struct mounts *ms, const struct err *why);
void mounts_settle_if_complete(struct mounts *ms);
/* NULL: it went well. Nothing when nothing is waited for. */
void mounts_settle(struct mounts *ms, const struct err *why);
/* NULL: there is none of this id. */
struct mount *mounts_find(const struct mounts *ms, uint32_t id);

#endif
