/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kosa8.net: connections of the host's to servers in the guest (AGENT_CONNECT), for published
 * ports. All containers share the guest's network, so its loopback is where their servers are.
 *
 *   FREE
 *   CONNECTING   127.0.0.1, then ::1 where that is refused. Then RUN_STARTED: OPEN, or RUN_FAILED
 *   OPEN         data both ways within windows: STDIN to the server, STDOUT from it.
 *                STDIN_EOF is the end of what the host sends, STDOUT_EOF of what the server does;
 *                after both, and all data, RUN_EXIT (EXITED, 0).
 *
 * RUN_EXIT is KILLED when the server resets the connection, and when the host does (KILL), which
 * resets it for the server. A new epoch resets all.
 */
#ifndef KOSA8_GUEST_NET_H
#define KOSA8_GUEST_NET_H

#include "loop.h"
#include "mux.h"

#include <stdint.h>

#define NET_STREAMS_MAX 256
#define NET_CONNECT_MS 10000
/* Bytes that the agent holds for a connection whose server does not read: what it grants. */
#define NET_STDIN_WINDOW (256u * 1024)

enum net_state { NET_FREE, NET_CONNECTING, NET_OPEN };

struct net_stream {
	enum net_state state;
	uint32_t stream;
	uint16_t port;
	bool v6;
	int64_t deadline_ms; /* CONNECTING; else -1 */
	struct watch socket;
	uint32_t window; /* STDOUT: granted and not used */
	bool out_eof;	 /* sent */
	struct buf in;	 /* STDIN that the server did not take yet */
	uint32_t granted, consumed;
	bool in_eof; /* no more comes */
	bool shut;   /* the server was told */
};

struct net {
	struct loop *loop;
	struct mux mux;
	size_t turn;
	struct net_stream stream[NET_STREAMS_MAX];
};

void net_init(struct net *n, struct loop *loop);
/* Takes the port's descriptor. */
int net_open(struct net *n, int fd, struct err *e) must_check;
/* One bounded round; 1: there is more to do. */
int net_step(struct net *n);
int64_t net_deadline_ms(const struct net *n);
void net_new_epoch(struct net *n, uint32_t epoch, const unsigned char *nonce);

/* net-stream.c */
void net_stream_start(struct net *n, struct net_stream *s, uint32_t stream, uint16_t port);
/* STDIN, STDIN_EOF, WINDOW, KILL. */
void net_stream_frame(struct net *n, struct net_stream *s, const struct frame *f);
/* 1: progress. */
int net_stream_step(struct net *n, struct net_stream *s);
/* Resets the connection; nothing is sent. */
void net_stream_reset(struct net *n, struct net_stream *s);

#endif
