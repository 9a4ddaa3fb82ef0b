/* SPDX-License-Identifier: Apache-2.0 */
#include "channel.h"

#include "queue.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* All that may wait for the guest: every run's stdin within its window, and requests. */
#define OUT_MAX (80u * 1024 * 1024)
#define REQUESTS_MAX 64
#define READ_CHUNK (128u * 1024)
/* Bytes read in one step, so that one guest cannot hold the loop. */
#define STEP_MAX (1024u * 1024)

enum channel_state { CHANNEL_SYNCING, CHANNEL_OPEN, CHANNEL_HELD, CHANNEL_BROKEN };

struct request {
	uint32_t number; /* 0: free */
	void (*reply)(void *ctx, const struct agent_reply *reply);
	void *ctx;
};

struct channel {
	enum channel_state state;
	int mux_fd, resume_fd;
	uint32_t epoch;
	uint32_t next_number;
	uint32_t quiesce;
	unsigned char nonce[AGENT_NONCE_SIZE];
	struct buf in;
	struct queue out;
	struct queue held;
	struct request requests[REQUESTS_MAX];
	struct channel_events events;
	void *ctx;
};

struct channel *channel_new(
	int mux_fd, int resume_fd, uint32_t epoch, const struct channel_events *events, void *ctx)
{
	struct channel *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	ch->state = CHANNEL_SYNCING;
	ch->mux_fd = mux_fd;
	ch->resume_fd = resume_fd;
	ch->epoch = epoch;
	ch->next_number = 1;
	ch->events = *events;
	ch->ctx = ctx;
	buf_init(&ch->in, READ_CHUNK + FRAME_HEADER_SIZE + FRAME_PAYLOAD_MAX);
	queue_init(&ch->out, OUT_MAX);
	queue_init(&ch->held, OUT_MAX);
	return ch;
}

static void fail_requests(struct channel *ch)
{
	for (size_t i = 0; i < REQUESTS_MAX; i++) {
		struct request q = ch->requests[i];
		if (q.number == 0)
			continue;
		ch->requests[i].number = 0;
		q.reply(q.ctx, NULL);
	}
}

void channel_abort(struct channel *ch)
{
	ch->state = CHANNEL_BROKEN;
	fail_requests(ch);
}

void channel_free(struct channel *ch)
{
	if (!ch)
		return;
	channel_abort(ch);
	buf_release(&ch->in);
	queue_release(&ch->out);
	queue_release(&ch->held);
	free(ch);
}

static int broken(struct channel *ch, struct err *why)
{
	if (ch->state != CHANNEL_BROKEN) {
		ch->state = CHANNEL_BROKEN;
		fail_requests(ch);
		ch->events.broken(ch->ctx, why);
	}
	return err_code(why);
}

/* What was held is sent now. */
static int open_up(struct channel *ch)
{
	ch->state = CHANNEL_OPEN;
	int r = queue_bytes(&ch->out, ch->held.bytes.data, ch->held.bytes.len);
	queue_release(&ch->held);
	return r;
}

int channel_resume(struct channel *ch, bool new_epoch, struct err *e)
{
	struct agent_resume r = {.epoch = ch->epoch, .quiesce = ch->quiesce};
	unsigned char record[AGENT_RESUME_SIZE];

	if (ch->state == CHANNEL_BROKEN)
		return err_set(e, ERR_WRONG_STATE, 0, "the channel to the guest is broken");
	if (new_epoch) {
		random_bytes(ch->nonce, sizeof(ch->nonce));
		if (queue_bytes(&ch->out, ch->nonce, sizeof(ch->nonce)) < 0)
			return err_set(e, ERR_IO, ENOMEM, "out of memory");
	} else if (ch->state == CHANNEL_HELD && open_up(ch) < 0) {
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	}
	memcpy(r.nonce, ch->nonce, sizeof(r.nonce));
	random_bytes(r.entropy, sizeof(r.entropy));
	r.wall_ns = (uint64_t)clock_wall_ns();
	agent_resume_encode(&r, record);
	/* The port's socket takes far more than the one record that can be in it. */
	int n = fd_write_all(ch->resume_fd, record, sizeof(record));
	if (n < 0)
		return err_errno(e, -n, "cannot reach the guest");
	return 0;
}

uint32_t channel_quiesce(struct channel *ch)
{
	cleanup_buf struct buf payload = {0};

	buf_init(&payload, 4);
	buf_put_u32(&payload, ++ch->quiesce);
	channel_send(ch, AGENT_QUIESCE, 0, payload.data, payload.len);
	if (ch->state == CHANNEL_OPEN)
		ch->state = CHANNEL_HELD;
	return ch->quiesce;
}

void channel_send(
	struct channel *ch, uint16_t type, uint32_t stream, const void *payload, size_t len)
{
	bool hold = ch->state == CHANNEL_HELD || ch->state == CHANNEL_SYNCING;
	struct queue *q = hold ? &ch->held : &ch->out;
	struct err e;

	if (ch->state == CHANNEL_BROKEN)
		return;
	if (queue_frame(q, type, stream, ch->epoch, payload, len) < 0) {
		(void)err_set(
			&e, ERR_LIMIT, 0, "more than %u MB wait for the guest", OUT_MAX >> 20);
		(void)broken(ch, &e);
	}
}

uint32_t channel_number(struct channel *ch)
{
	return ch->next_number++;
}

int channel_request(struct channel *ch, uint16_t type, const struct buf *payload,
	void (*reply)(void *ctx, const struct agent_reply *reply), void *ctx, struct err *e)
{
	if (ch->state == CHANNEL_BROKEN)
		return err_set(e, ERR_WRONG_STATE, 0, "the channel to the guest is broken");
	for (size_t i = 0; i < REQUESTS_MAX; i++) {
		if (ch->requests[i].number != 0)
			continue;
		uint32_t number = channel_number(ch);
		ch->requests[i] = (struct request){number, reply, ctx};
		channel_send(ch, type, number, payload ? payload->data : NULL,
			payload ? payload->len : 0);
		return 0;
	}
	return err_set(e, ERR_LIMIT, 0, "more than %d requests wait for the guest", REQUESTS_MAX);
}

static int protocol_error(struct channel *ch, const char *what)
{
	struct err e;

	(void)err_set(&e, ERR_PROTOCOL, 0, "the guest's agent sent %s", what);
	return broken(ch, &e);
}

static int handle_reply(struct channel *ch, const struct frame *f)
{
	struct agent_reply reply;
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	if (agent_reply_decode(&c, &reply) < 0)
		return protocol_error(ch, "a reply that cannot be read");
	for (size_t i = 0; i < REQUESTS_MAX; i++) {
		struct request q = ch->requests[i];
		if (q.number != f->stream || q.number == 0)
			continue;
		ch->requests[i].number = 0;
		q.reply(q.ctx, &reply);
		return 0;
	}
	return protocol_error(ch, "a reply to no request");
}

static int handle_frame(struct channel *ch, const struct frame *f)
{
	struct cursor c;

	if (f->epoch != ch->epoch)
		return 0;
	switch (f->type) {
	case AGENT_REPLY:
		return handle_reply(ch, f);
	case AGENT_RESUMED:
		ch->events.resumed(ch->ctx);
		return 0;
	case AGENT_QUIESCED:
		cursor_init(&c, f->payload, f->len);
		ch->events.quiesced(ch->ctx, cursor_u32(&c));
		return 0;
	case AGENT_RUN_STARTED:
	case AGENT_RUN_FAILED:
	case AGENT_STDOUT:
	case AGENT_STDERR:
	case AGENT_STDOUT_EOF:
	case AGENT_STDERR_EOF:
	case AGENT_RUN_EXIT:
	case AGENT_WINDOW:
		ch->events.run_frame(ch->ctx, f);
		return 0;
	default:
		return protocol_error(ch, "a frame of an unknown type");
	}
}

/* Drops everything up to and including the nonce; keeps a tail that may be its beginning. */
static int sync_input(struct channel *ch)
{
	unsigned char *at = memmem(ch->in.data, ch->in.len, ch->nonce, sizeof(ch->nonce));

	if (at) {
		buf_consume(&ch->in, (size_t)(at - ch->in.data) + sizeof(ch->nonce));
		return open_up(ch);
	} else if (ch->in.len >= sizeof(ch->nonce)) {
		buf_consume(&ch->in, ch->in.len - sizeof(ch->nonce) + 1);
	}
	return 0;
}

static int parse_input(struct channel *ch)
{
	struct frame f;
	size_t at = 0;
	int n = 0;

	if (ch->state == CHANNEL_SYNCING && sync_input(ch) < 0)
		return -ENOMEM;
	if (ch->state == CHANNEL_SYNCING)
		return 0;
	while (ch->state != CHANNEL_BROKEN &&
		(n = frame_parse(ch->in.data + at, ch->in.len - at, &f)) > 0) {
		at += (size_t)n;
		int r = handle_frame(ch, &f);
		if (r < 0)
			return r;
	}
	if (ch->state == CHANNEL_BROKEN)
		return -EPROTO;
	if (n < 0)
		return protocol_error(ch, "bytes that are no frame");
	buf_consume(&ch->in, at);
	return 0;
}

static int read_input(struct channel *ch)
{
	size_t total = 0;

	while (total < STEP_MAX) {
		size_t before = ch->in.len;
		void *at = buf_extend(&ch->in, READ_CHUNK);
		if (!at) {
			ch->in.failed = false;
			return -ENOMEM;
		}
		ssize_t n = read(ch->mux_fd, at, READ_CHUNK);
		int saved = errno;
		ch->in.len = before + (n > 0 ? (size_t)n : 0);
		if (n < 0 && saved == EINTR)
			continue;
		if (n < 0 && saved == EAGAIN)
			break;
		if (n <= 0)
			return n < 0 ? -saved : -EPIPE;
		total += (size_t)n;
		int r = parse_input(ch);
		if (r < 0)
			return r;
	}
	if (ch->in.len == 0)
		buf_release(&ch->in);
	return total > 0;
}

int channel_process(struct channel *ch)
{
	struct err e;

	if (ch->state == CHANNEL_BROKEN)
		return -EPIPE;
	int r = read_input(ch);
	if (ch->state == CHANNEL_BROKEN)
		return -EPIPE;
	if (r >= 0) {
		size_t before = queue_left(&ch->out);
		int w = queue_write(&ch->out, ch->mux_fd);
		if (w < 0)
			r = w;
		else if (queue_left(&ch->out) < before)
			r = 1;
	}
	if (r < 0) {
		(void)err_errno(&e, -r, "the channel to the guest ended");
		return broken(ch, &e);
	}
	return r;
}

bool channel_wants_write(const struct channel *ch)
{
	return ch->state != CHANNEL_BROKEN && queue_left(&ch->out) > 0;
}
