/* SPDX-License-Identifier: Apache-2.0 */
#include "net.h"

#include "../base/clock.h"
#include "../base/log.h"

#include <errno.h>
#include <stdio.h>

#define FRAMES_A_STEP 64

void net_init(struct net *n, struct loop *loop)
{
	n->loop = loop;
	mux_init(&n->mux);
	for (size_t i = 0; i < NET_STREAMS_MAX; i++)
		n->stream[i] = (struct net_stream){.socket.fd = -1, .deadline_ms = -1};
}

int net_open(struct net *n, int fd, struct err *e)
{
	return loop_watch(n->loop, &n->mux.port, fd, WATCH_READ | WATCH_WRITE, e);
}

static struct net_stream *find(struct net *n, uint32_t stream)
{
	for (size_t i = 0; i < NET_STREAMS_MAX; i++)
		if (n->stream[i].state != NET_FREE && n->stream[i].stream == stream)
			return &n->stream[i];
	return NULL;
}

static void refuse(struct net *n, uint32_t stream, int errnum, const char *text)
{
	struct agent_reply m = {.status = (uint32_t)errnum, .fail = AGENT_FAIL_SETUP};

	(void)snprintf(m.text, sizeof(m.text), "%s", text);
	mux_reply(&n->mux, AGENT_RUN_FAILED, stream, &m);
}

static void on_connect(struct net *n, const struct frame *f)
{
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	uint16_t port = cursor_u16(&c);
	if (!cursor_done(&c) || port == 0)
		return refuse(n, f->stream, EPROTO, "malformed CONNECT");
	if (find(n, f->stream)) {
		log_warn("a second CONNECT on stream %u was ignored", f->stream);
		return;
	}
	for (size_t i = 0; i < NET_STREAMS_MAX; i++)
		if (n->stream[i].state == NET_FREE)
			return net_stream_start(n, &n->stream[i], f->stream, port);
	refuse(n, f->stream, EAGAIN, "the guest has 256 connections already, which is the limit");
}

static int step_input(struct net *n)
{
	struct frame f;
	int taken = 0;

	while (taken < FRAMES_A_STEP && mux_has_room(&n->mux)) {
		int r = mux_next(&n->mux, &f);

		if (r > 0) {
			struct net_stream *s = find(n, f.stream);

			taken++;
			if (f.type == AGENT_CONNECT)
				on_connect(n, &f);
			else if (s)
				net_stream_frame(n, s, &f);
		} else if (r < 0) {
			log_warn("kosa8.net lost its place: waiting for a new epoch");
		} else if (!mux_fill(&n->mux)) {
			break;
		}
	}
	return taken;
}

int net_step(struct net *n)
{
	int busy = step_input(n);

	for (size_t i = 0; i < NET_STREAMS_MAX; i++) {
		struct net_stream *s = &n->stream[(n->turn + i) % NET_STREAMS_MAX];

		if (s->state != NET_FREE)
			busy |= net_stream_step(n, s);
	}
	n->turn = (n->turn + 1) % NET_STREAMS_MAX;
	bool had_room = mux_has_room(&n->mux);
	(void)mux_flush(&n->mux);
	return busy || (!had_room && mux_has_room(&n->mux));
}

int64_t net_deadline_ms(const struct net *n)
{
	int64_t first = -1;

	for (size_t i = 0; i < NET_STREAMS_MAX; i++) {
		const struct net_stream *s = &n->stream[i];

		if (s->state == NET_CONNECTING && (first < 0 || s->deadline_ms < first))
			first = s->deadline_ms;
	}
	return first;
}

void net_new_epoch(struct net *n, uint32_t epoch, const unsigned char *nonce)
{
	for (size_t i = 0; i < NET_STREAMS_MAX; i++)
		if (n->stream[i].state != NET_FREE)
			net_stream_reset(n, &n->stream[i]);
	mux_new_epoch(&n->mux, epoch, nonce);
	(void)mux_flush(&n->mux);
}
