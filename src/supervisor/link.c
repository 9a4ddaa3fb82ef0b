/* SPDX-License-Identifier: Apache-2.0 */
#include "link.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define READ_CHUNK (128u * 1024)
/* Bytes read in one step, so that one guest cannot hold the loop. */
#define STEP_MAX (1024u * 1024)

void link_init(struct link *l, int fd, uint32_t epoch, size_t out_max_bytes,
	const struct link_events *events, void *ctx)
{
	*l = (struct link){
		.state = LINK_SYNCING, .fd = fd, .epoch = epoch, .events = *events, .ctx = ctx};
	buf_init(&l->in, READ_CHUNK + FRAME_HEADER_SIZE + FRAME_PAYLOAD_MAX);
	queue_init(&l->out, out_max_bytes);
	queue_init(&l->held, out_max_bytes);
}

void link_release(struct link *l)
{
	l->state = LINK_BROKEN;
	buf_release(&l->in);
	queue_release(&l->out);
	queue_release(&l->held);
}

void link_abort(struct link *l)
{
	l->state = LINK_BROKEN;
}

static int broken(struct link *l, const struct err *why)
{
	if (l->state != LINK_BROKEN) {
		l->state = LINK_BROKEN;
		l->events.broken(l->ctx, why);
	}
	return err_code(why);
}

/* What was held is sent now. */
static int open_up(struct link *l)
{
	l->state = LINK_OPEN;
	int r = queue_bytes(&l->out, l->held.bytes.data, l->held.bytes.len);
	queue_release(&l->held);
	return r;
}

int link_sync(struct link *l, const unsigned char nonce[AGENT_NONCE_SIZE])
{
	memcpy(l->nonce, nonce, AGENT_NONCE_SIZE);
	return queue_bytes(&l->out, nonce, AGENT_NONCE_SIZE);
}

void link_hold(struct link *l)
{
	if (l->state == LINK_OPEN)
		l->state = LINK_HELD;
	l->hold = true;
}

int link_unhold(struct link *l)
{
	l->hold = false;
	return l->state == LINK_HELD ? open_up(l) : 0;
}

void link_send(struct link *l, uint16_t type, uint32_t stream, const void *payload, size_t len)
{
	bool hold = l->state == LINK_HELD || l->state == LINK_SYNCING;
	struct queue *q = hold ? &l->held : &l->out;
	struct err e;

	if (l->state == LINK_BROKEN)
		return;
	if (queue_frame(q, type, stream, l->epoch, payload, len) < 0) {
		(void)err_set(&e, ERR_LIMIT, 0, "more than %zu MB wait for the guest",
			q->bytes.max >> 20);
		(void)broken(l, &e);
	}
}

size_t link_queued(const struct link *l)
{
	return queue_left(&l->out) + queue_left(&l->held);
}

/* Drops everything up to and including the nonce; keeps a tail that may be its beginning. */
static int sync_input(struct link *l)
{
	unsigned char *at = memmem(l->in.data, l->in.len, l->nonce, sizeof(l->nonce));

	if (!at) {
		if (l->in.len >= sizeof(l->nonce))
			buf_consume(&l->in, l->in.len - sizeof(l->nonce) + 1);
		return 0;
	}
	buf_consume(&l->in, (size_t)(at - l->in.data) + sizeof(l->nonce));
	if (!l->hold)
		return open_up(l);
	l->state = LINK_HELD;
	return 0;
}

static int parse_input(struct link *l)
{
	struct frame f;
	struct err e;
	size_t at = 0;
	int n = 0;

	if (l->state == LINK_SYNCING && sync_input(l) < 0)
		return -ENOMEM;
	if (l->state == LINK_SYNCING)
		return 0;
	while (l->state != LINK_BROKEN &&
		(n = frame_parse(l->in.data + at, l->in.len - at, &f)) > 0) {
		at += (size_t)n;
		if (f.epoch == l->epoch && l->events.frame(l->ctx, &f, &e) < 0)
			return broken(l, &e);
	}
	if (l->state == LINK_BROKEN)
		return -EPROTO;
	if (n < 0) {
		(void)err_set(
			&e, ERR_PROTOCOL, 0, "the guest's agent sent bytes that are no frame");
		return broken(l, &e);
	}
	buf_consume(&l->in, at);
	return 0;
}

static int read_input(struct link *l)
{
	size_t total = 0;

	while (total < STEP_MAX) {
		size_t before = l->in.len;
		void *at = buf_extend(&l->in, READ_CHUNK);
		if (!at) {
			l->in.failed = false;
			return -ENOMEM;
		}
		ssize_t n = read(l->fd, at, READ_CHUNK);
		int saved = errno;
		l->in.len = before + (n > 0 ? (size_t)n : 0);
		if (n < 0 && saved == EINTR)
			continue;
		if (n < 0 && saved == EAGAIN)
			break;
		if (n <= 0)
			return n < 0 ? -saved : -EPIPE;
		total += (size_t)n;
		int r = parse_input(l);
		if (r < 0)
			return r;
	}
	if (l->in.len == 0)
		buf_release(&l->in);
	return total > 0;
}

static int write_output(struct link *l)
{
	size_t before = queue_left(&l->out);
	int r = queue_write(&l->out, l->fd);

	if (r < 0)
		return r;
	return queue_left(&l->out) < before;
}

int link_process(struct link *l)
{
	struct err e;

	if (l->state == LINK_BROKEN)
		return -EPIPE;
	int r = read_input(l);
	if (l->state == LINK_BROKEN)
		return -EPIPE;
	if (r >= 0) {
		int w = write_output(l);
		if (w != 0)
			r = w;
	}
	if (r < 0) {
		(void)err_errno(&e, -r, "the channel to the guest ended");
		return broken(l, &e);
	}
	return r;
}

bool link_wants_write(const struct link *l)
{
	return l->state != LINK_BROKEN && queue_left(&l->out) > 0;
}
