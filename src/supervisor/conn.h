/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client's connection (proto/client.h). It carries one request; the frames after that belong to
 * the run that the request started. A connection outlives neither its client nor its RESULT; who
 * refers to it is told by the `gone` callback.
 */
#ifndef KOSA8_SUPERVISOR_CONN_H
#define KOSA8_SUPERVISOR_CONN_H

#include "../base/frame.h"
#include "../base/json.h"

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

struct conn;

struct conn_events {
	/* The first frame: a request. Owned by the callee. */
	void (*request)(void *ctx, struct conn *c, json_t *request);
	/* Any later frame. */
	void (*frame)(void *ctx, struct conn *c, const struct frame *f);
	/* The client went away before its RESULT. The object is freed after the call. */
	void (*gone)(void *ctx, struct conn *c);
};

/* Takes fd, also on failure. */
int conn_new(uv_loop_t *loop, int fd, const struct conn_events *events, void *ctx,
	struct conn **ret, struct err *e) must_check;
/* The client's process as the kernel knows it. */
pid_t conn_pid(const struct conn *c);
uid_t conn_uid(const struct conn *c);
/* Whoever handles the connection's request keeps a pointer here. */
void conn_set_user(struct conn *c, void *user);
void *conn_user(const struct conn *c);

/* Queue a frame. A client that lets more than CONN_OUT_MAX wait is dropped (gone is called). */
#define CONN_OUT_MAX (8u * 1024 * 1024)
void conn_send(struct conn *c, uint16_t type, const void *payload, size_t len);
/* The same for a part of a stream of bytes: parts that wait share a frame. */
void conn_data(struct conn *c, uint16_t type, const void *payload, size_t len);
void conn_notice(struct conn *c, const char *text);
/* The last frame; takes result. The connection closes itself once it is written. */
void conn_finish(struct conn *c, json_t *result);
void conn_finish_error(struct conn *c, const struct err *why);
/* Tries for up to a second to get queued frames out: for notices before a long blocking step. */
void conn_flush_now(struct conn *c);

#endif
