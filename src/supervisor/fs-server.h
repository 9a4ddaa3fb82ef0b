/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kosa8-fs process of one mount (proto/fs.h), on the supervisor's loop. Nothing here blocks,
 * and one that stands still holds only its own queue.
 *
 *   STARTING   requests wait; FS_READY or FS_FAILED is next
 *   READY      all
 *   FAILED     the owner was told once, by `failed`; requests are answered with ENOTCONN
 *
 * Requests that are out are counted by FUSE's `unique`: a server that fails, or that answers what
 * nobody asked, has each of them answered with EIO. What comes from the guest (requests) and from
 * the server (replies) is hostile.
 */
#ifndef KOSA8_SUPERVISOR_FS_SERVER_H
#define KOSA8_SUPERVISOR_FS_SERVER_H

#include "../base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct fs_answer; /* fs-pool.h */
struct fs_server;

enum fs_server_state { FS_SERVER_STARTING, FS_SERVER_READY, FS_SERVER_FAILED };

struct fs_server_events {
	void (*ready)(void *ctx);
	/* A message for /dev/fuse: an answer, or a notification. */
	void (*reply)(void *ctx, const void *data, size_t len);
	/* The same for a request with a slot; `mount` is left out. */
	void (*reply_slot)(void *ctx, struct fs_answer *a);
	/* The table is written: 0, or a positive errno. */
	void (*saved)(void *ctx, int errnum);
	/* Once; the process is gone or is being ended. After `reply` for all that was out. */
	void (*failed)(void *ctx, const struct err *why);
};

struct fs_server_start {
	const char *program;
	int root_fd;  /* borrowed */
	int table_fd; /* borrowed; -1: no --restore */
	bool read_only;
};

/* Events come from the loop only, never during this call. */
int fs_server_start(uv_loop_t *loop, const struct fs_server_start *start,
	const struct fs_server_events *events, void *ctx, struct fs_server **ret,
	struct err *e) must_check;
/* Ends the process and forgets it; nothing is reported any more. Allowed in its events. Accepts
 * NULL. */
void fs_server_free(struct fs_server *f);
/* Has gone called, from the loop, when the process has ended and all of it is closed; after
 * fs_server_free(), which does not forget this. NULL: not any more. */
void fs_server_when_gone(struct fs_server *f, void (*gone)(void *ctx), void *ctx);
/* Answers all that is out with ENOTCONN: no slot of the guest's is written to any more. Before
 * fs_server_free(), when the guest goes on. */
void fs_server_abandon(struct fs_server *f);

enum fs_server_state fs_server_state(const struct fs_server *f);
#define FS_SERVER_NO_SLOT UINT32_MAX
/* One message as read from /dev/fuse. A guest that breaks the rules fails the server. */
void fs_server_request(struct fs_server *f, const void *data, size_t len, uint32_t slot);
/* Has the table written to fd, which is duplicated; `saved` or `failed` follows. It holds what was
 * so between the requests before and after this call. -EBUSY: one is under way. */
int fs_server_save(struct fs_server *f, int fd) must_check;
/* Whether answers are read: not while the guest takes none. */
void fs_server_read(struct fs_server *f, bool on);

#endif
