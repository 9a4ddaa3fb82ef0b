/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to a published port: the socket on one side, the stream on the other. Part of
 * ports.c. */
#ifndef KOSA8_SUPERVISOR_PORT_CONN_H
#define KOSA8_SUPERVISOR_PORT_CONN_H

#include "queue.h"

#include "../base/frame.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* What the guest may send ahead of what the client has read. */
#define PORT_CONN_WINDOW (256u * 1024)

struct port_conn;

struct port_conn_events {
	void (*send)(void *ctx, uint16_t type, uint32_t stream, const void *payload, size_t len);
	/* It is over, and freed after the call. */
	void (*closed)(void *ctx, struct port_conn *c);
};

/*   CONNECTING   CONNECT is out; nothing is read from the client
 *   OPEN         both directions that have not ended
 *   DRAINING     RUN_EXIT came; what the client has not got yet is written
 *   CLOSED       waits for libuv */
enum port_conn_state { PORT_CONN_CONNECTING, PORT_CONN_OPEN, PORT_CONN_DRAINING, PORT_CONN_CLOSED };

struct port_conn {
	enum port_conn_state state;
	uint32_t stream;
	size_t listener; /* the owner's */
	int fd;
	uv_poll_t poll;
	uint32_t in_window;  /* bytes that the guest takes now */
	uint32_t out_window; /* bytes that the guest may send now */
	uint32_t written;    /* bytes that the client got and the guest was not granted again */
	bool in_end;	     /* STDIN_EOF is out */
	bool half_closed;    /* the client's end was seen; it is read when the guest grants */
	bool out_end;	     /* STDOUT_EOF came */
	bool out_shut;	     /* and the client was told */
	bool blocked;	     /* the link is full: nothing is read from the client */
	struct queue out;
	struct port_conn_events events;
	void *ctx;
	struct port_conn *next;
};

/* Takes fd, also on failure; sends CONNECT. */
int port_conn_new(uv_loop_t *loop, int fd, uint32_t stream, uint16_t guest_port,
	const struct port_conn_events *events, void *ctx, struct port_conn **ret);
/* Resets the client's side and is over; tell: the guest gets KILL. `closed` is called. */
void port_conn_reset(struct port_conn *c, bool tell);
void port_conn_frame(struct port_conn *c, const struct frame *f);
void port_conn_block(struct port_conn *c, bool blocked);

#endif
