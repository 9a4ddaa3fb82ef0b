/* SPDX-License-Identifier: Apache-2.0 */
#include "channel.h"

#include "link.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/hash.h"
#include "../base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* All that may wait for the guest: every session's stdin within its window, and requests. */
#define OUT_MAX (80u * 1024 * 1024)
#define REQUESTS_MAX 64

struct request {
	uint32_t number; /* 0: free */
	void (*reply)(void *ctx, const struct agent_reply *reply);
	void *ctx;
};

struct channel {
	struct link mux;
	int resume_fd;
	uint32_t next_number;
	uint32_t quiesce;
	struct request requests[REQUESTS_MAX];
	struct channel_events events;
	void *ctx;
};

static int on_frame(void *ctx, const struct frame *f, struct err *e);
static void on_broken(void *ctx, const struct err *why);

struct channel *channel_new(
	int mux_fd, int resume_fd, uint32_t epoch, const struct channel_events *events, void *ctx)
{
	static const struct link_events link_events = {.frame = on_frame, .broken = on_broken};
	struct channel *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	link_init(&ch->mux, mux_fd, epoch, OUT_MAX, &link_events, ch);
	ch->resume_fd = resume_fd;
	ch->next_number = 1;
	ch->events = *events;
	ch->ctx = ctx;
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
	link_abort(&ch->mux);
	fail_requests(ch);
}

void channel_free(struct channel *ch)
{
	if (!ch)
		return;
	channel_abort(ch);
	link_release(&ch->mux);
	free(ch);
}

static void on_broken(void *ctx, const struct err *why)
{
	struct channel *ch = ctx;

	fail_requests(ch);
	ch->events.broken(ch->ctx, why);
}

int channel_resume(struct channel *ch, bool new_epoch, struct err *e)
{
	struct agent_resume r = {.epoch = ch->mux.epoch, .quiesce = ch->quiesce};
	unsigned char record[AGENT_RESUME_SIZE], nonce[AGENT_NONCE_SIZE];
	int queued;

	if (ch->mux.state == LINK_BROKEN)
		return err_set(e, ERR_WRONG_STATE, 0, "the channel to the guest is broken");
	if (new_epoch) {
		random_bytes(nonce, sizeof(nonce));
		queued = link_sync(&ch->mux, nonce);
	} else {
		queued = link_unhold(&ch->mux);
	}
	if (queued < 0)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	memcpy(r.nonce, ch->mux.nonce, sizeof(r.nonce));
	random_bytes(r.entropy, sizeof(r.entropy));
	r.wall_ns = (uint64_t)clock_wall_ns();
	agent_resume_encode(&r, record);
	/* The port's socket takes far more than the one record that can be in it. */
	int n = fd_write_all(ch->resume_fd, record, sizeof(record));
	if (n < 0)
		return err_errno(e, -n, "cannot reach the guest");
	return 0;
}

const unsigned char *channel_nonce(const struct channel *ch)
{
	return ch->mux.nonce;
}

uint32_t channel_quiesce(struct channel *ch)
{
	cleanup_buf struct buf payload = {0};

	buf_init(&payload, 4);
	buf_put_u32(&payload, ++ch->quiesce);
	channel_send(ch, AGENT_QUIESCE, 0, payload.data, payload.len);
	link_hold(&ch->mux);
	return ch->quiesce;
}

void channel_send(
	struct channel *ch, uint16_t type, uint32_t stream, const void *payload, size_t len)
{
	link_send(&ch->mux, type, stream, payload, len);
}

uint32_t channel_number(struct channel *ch)
{
	return ch->next_number++;
}

int channel_request(struct channel *ch, uint16_t type, const struct buf *payload,
	void (*reply)(void *ctx, const struct agent_reply *reply), void *ctx, struct err *e)
{
	if (ch->mux.state == LINK_BROKEN)
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

static int protocol_error(struct err *e, const char *what)
{
	return err_set(e, ERR_PROTOCOL, 0, "the guest's agent sent %s", what);
}

static int handle_reply(struct channel *ch, const struct frame *f, struct err *e)
{
	char text[AGENT_TEXT_MAX];
	struct agent_reply reply;
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	if (agent_reply_decode(&c, &reply) < 0)
		return protocol_error(e, "a reply that cannot be read");
	for (size_t i = 0; i < REQUESTS_MAX; i++) {
		struct request q = ch->requests[i];
		if (q.number != f->stream || q.number == 0)
			continue;
		ch->requests[i].number = 0;
		text_escape(reply.text, text, sizeof(text));
		memcpy(reply.text, text, sizeof(text));
		q.reply(q.ctx, &reply);
		return 0;
	}
	return protocol_error(e, "a reply to no request");
}

static int on_frame(void *ctx, const struct frame *f, struct err *e)
{
	struct channel *ch = ctx;
	struct cursor c;

	switch (f->type) {
	case AGENT_REPLY:
		return handle_reply(ch, f, e);
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
	case AGENT_CONTAINER:
	case AGENT_ENDED:
		ch->events.session_frame(ch->ctx, f);
		return 0;
	default:
		return protocol_error(e, "a frame of an unknown type");
	}
}

int channel_process(struct channel *ch)
{
	return link_process(&ch->mux);
}

bool channel_wants_write(const struct channel *ch)
{
	return link_wants_write(&ch->mux);
}
