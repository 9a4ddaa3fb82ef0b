/* SPDX-License-Identifier: Apache-2.0 */
#include "mux.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* One virtio console buffer; a longer write would be cut by the driver. */
#define WRITE_MAX (32u * 1024)

void mux_init(struct mux *m)
{
	m->port = (struct watch){.fd = -1};
	m->epoch = 0;
	m->syncing = m->lost = false;
	m->in_start = m->in_end = m->out_start = 0;
	buf_init(&m->out, MUX_OUT_MAX);
}

void mux_release(struct mux *m)
{
	buf_release(&m->out);
}

static size_t in_len(const struct mux *m)
{
	return m->in_end - m->in_start;
}

int mux_fill(struct mux *m)
{
	if (!m->port.readable || m->lost)
		return 0;
	if (m->in_end == sizeof(m->in) && m->in_start > MUX_HISTORY) {
		size_t drop = m->in_start - MUX_HISTORY;

		memmove(m->in, m->in + drop, m->in_end - drop);
		m->in_start -= drop;
		m->in_end -= drop;
	}
	if (m->in_end == sizeof(m->in))
		return 0;
	ssize_t n = read(m->port.fd, m->in + m->in_end, sizeof(m->in) - m->in_end);
	if (n > 0) {
		m->in_end += (size_t)n;
		return 1;
	}
	/* 0: nobody has the other end open; the port becomes readable when that changes. */
	if (n == 0 || errno != EINTR)
		m->port.readable = false;
	return 0;
}

/* Looks for the nonce from `from` on; all input up to it is discarded. True when it was found. */
static bool sync_input(struct mux *m, size_t from)
{
	const unsigned char *found =
		memmem(m->in + from, m->in_end - from, m->nonce, sizeof(m->nonce));

	m->syncing = !found;
	m->in_start = found ? (size_t)(found - m->in) + sizeof(m->nonce) : m->in_end;
	return found;
}

/* A part of the nonce may be the end of what was looked through before. */
static size_t sync_from(const struct mux *m)
{
	size_t overlap = sizeof(m->nonce) - 1;

	return m->in_start > overlap ? m->in_start - overlap : 0;
}

int mux_next(struct mux *m, struct frame *ret)
{
	for (;;) {
		if (m->lost || (m->syncing && !sync_input(m, sync_from(m))))
			return 0;
		int n = frame_parse(m->in + m->in_start, in_len(m), ret);
		if (n == 0)
			return 0;
		if (n < 0) {
			m->lost = true;
			return -EPROTO;
		}
		m->in_start += (size_t)n;
		if (ret->epoch == m->epoch)
			return 1;
	}
}

static size_t out_len(const struct mux *m)
{
	return m->out.len - m->out_start;
}

bool mux_is_amid_frame(const struct mux *m)
{
	return m->syncing || in_len(m) > 0;
}

bool mux_has_room(const struct mux *m)
{
	return out_len(m) < MUX_OUT_ROOM;
}

bool mux_flushed(const struct mux *m)
{
	return out_len(m) == 0;
}

void mux_send(struct mux *m, enum agent_type type, uint32_t stream, const void *data, size_t len)
{
	frame_put(&m->out, (uint16_t)type, stream, m->epoch, data, len);
}

void mux_send_buf(struct mux *m, enum agent_type type, uint32_t stream, const struct buf *b)
{
	if (!buf_failed(b))
		mux_send(m, type, stream, b->data, b->len);
}

void mux_reply(struct mux *m, enum agent_type type, uint32_t stream, const struct agent_reply *r)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, 1024);
	agent_reply_encode(&b, r);
	mux_send_buf(m, type, stream, &b);
}

void *mux_begin(struct mux *m, size_t max)
{
	unsigned char *at = buf_extend(&m->out, FRAME_HEADER_SIZE + max);

	return at ? at + FRAME_HEADER_SIZE : NULL;
}

void mux_end(struct mux *m, size_t max, enum agent_type type, uint32_t stream, size_t len)
{
	m->out.len -= max - len;
	frame_header(m->out.data + m->out.len - len - FRAME_HEADER_SIZE, (uint16_t)type, stream,
		m->epoch, len);
}

void mux_cancel(struct mux *m, size_t max)
{
	m->out.len -= FRAME_HEADER_SIZE + max;
}

int mux_flush(struct mux *m)
{
	int progress = 0;

	while (out_len(m) > 0 && m->port.writable) {
		size_t len = out_len(m) < WRITE_MAX ? out_len(m) : WRITE_MAX;
		ssize_t n = write(m->port.fd, m->out.data + m->out_start, len);

		if (n > 0) {
			m->out_start += (size_t)n;
			progress = 1;
		} else if (n == 0 || errno != EINTR) {
			m->port.writable = false;
		}
	}
	if (out_len(m) == 0) {
		buf_reset(&m->out);
		m->out_start = 0;
	} else if (m->out_start >= MUX_OUT_ROOM) {
		buf_consume(&m->out, m->out_start);
		m->out_start = 0;
	}
	return progress;
}

void mux_new_epoch(struct mux *m, uint32_t epoch, const unsigned char *nonce)
{
	m->epoch = epoch;
	m->lost = false;
	m->out_start = 0;
	buf_reset(&m->out);
	memcpy(m->nonce, nonce, sizeof(m->nonce));
	(void)sync_input(m, 0);
	buf_put(&m->out, nonce, AGENT_NONCE_SIZE);
}
