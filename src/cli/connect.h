/* SPDX-License-Identifier: Apache-2.0 */
/* A client's end of the wire to a supervisor (proto/client.h): one request a connection. */
#ifndef KOSA8_CLI_CONNECT_H
#define KOSA8_CLI_CONNECT_H

#include "context.h"

#include "../base/frame.h"

struct connection {
	int fd; /* blocking; all reads here are MSG_DONTWAIT */
	struct buf in;
	size_t at; /* what is before it in `in` was handed out */
	bool lost; /* the stream ended before RESULT */
	char name[64];
	char id[CATALOG_ID_SIZE];
};

/* Takes fd over. */
void connection_init(struct connection *c, int fd, const struct sandbox_row *s);
/* To a running sandbox's supervisor; ERR_WRONG_STATE otherwise. */
int connection_open(const struct sandbox *s, struct connection *ret, struct err *e) must_check;
void connection_close(struct connection *c);
#define cleanup_connection __attribute__((cleanup(connection_close)))

/* Sends the REQUEST frame; request is borrowed. ERR_LIMIT when it is over CLIENT_JSON_MAX. */
int connection_request(struct connection *c, const json_t *request, struct err *e) must_check;
/* Sends what it can of out without waiting. A supervisor that has closed is no error: what it said
 * before that is still to be read. */
int connection_write(struct connection *c, struct buf *out, struct err *e) must_check;
/* Reads what is there without waiting: its size, 0 at the end of the stream, -EAGAIN. */
ssize_t connection_fill(struct connection *c) must_check;
/* 1: *ret is the next frame, valid until the next connection_fill(); 0: none; -EPROTO. */
int connection_frame(struct connection *c, struct frame *ret) must_check;
/* The object of a RESULT frame, or the error in it. */
int connection_result(
	const struct connection *c, const struct frame *f, json_t **ret, struct err *e) must_check;
/* Shows a NOTICE frame's text on stderr. */
void connection_notice(const struct frame *f);
/* ERR_UNAVAILABLE: the stream ended before RESULT. */
int connection_lost(struct connection *c, struct err *e);
/* Waits for RESULT, showing notices. deadline: clock_mono_ms(), -1 none. */
int connection_wait(
	struct connection *c, int64_t deadline_ms, json_t **ret, struct err *e) must_check;

/* Open, send, wait. request is taken. */
int supervisor_ask(const struct sandbox *s, json_t *request, int64_t deadline_ms, json_t **ret,
	struct err *e) must_check;

#endif
