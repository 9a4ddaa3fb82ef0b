/* SPDX-License-Identifier: Apache-2.0 */
#include "log-view.h"

#include "../base/clock.h"

#include <errno.h>
#include <string.h>

static const char lost_notice[] = "kosa8: logs: older output is missing here: the log was full\n";

/* A piece, and what stands before it. */
#define PIECE_MAX (16u * 1024)
#define ROOM_MIN (PIECE_MAX + CLOCK_RFC3339_SIZE + sizeof(lost_notice) + 1)

void log_view_init(struct log_view *v, uint64_t tail, bool timestamps)
{
	*v = (struct log_view){.timestamps = timestamps,
		.tail = tail,
		.collecting = tail != LOG_VIEW_ALL,
		.taken = LOG_VIEW_WINDOW};
	buf_init(&v->in, LOG_VIEW_MAX + 2 * (LOG_VIEW_WINDOW + LOG_HEADER_SIZE + LOG_DATA_MAX));
}

void log_view_release(struct log_view *v)
{
	buf_release(&v->in);
}

int log_view_put(struct log_view *v, const void *data, size_t len)
{
	if (len > v->window)
		return -EPROTO;
	/* Each byte is moved once or less. */
	if (v->at > v->in.len / 2) {
		buf_consume(&v->in, v->at);
		v->at = 0;
	}
	buf_put(&v->in, data, len);
	v->window -= (uint32_t)len;
	v->taken += (uint32_t)len;
	return buf_failed(&v->in) ? -ENOMEM : 0;
}

static int stream_of(const struct log_record *r)
{
	return r->which == LOG_STDERR;
}

/* The end of the line that begins or goes on at data, or of a piece of it. */
static size_t line_len(const unsigned char *data, size_t len)
{
	const unsigned char *end = memchr(data, '\n', len);

	return end ? (size_t)(end - data) + 1 : len;
}

static uint64_t count_lines(const struct log_record *r, bool middle[2])
{
	uint64_t lines = 0;
	bool *in_line = &middle[stream_of(r)];

	for (size_t i = 0; i < r->len;) {
		size_t n = line_len(r->data + i, r->len - i);
		lines += !*in_line;
		i += n;
		*in_line = r->data[i - 1] != '\n';
	}
	return lines;
}

/* All that was there has come: how many of its lines are left out. */
static int end_collecting(struct log_view *v)
{
	bool middle[2] = {false, false};
	uint64_t lines = 0;
	struct log_record r;
	int n;

	for (size_t at = 0; at < v->checked; at += (size_t)n) {
		n = log_record_parse(v->in.data + at, v->checked - at, &r);
		if (n <= 0)
			return -EPROTO;
		if (r.which == LOG_STDOUT || r.which == LOG_STDERR)
			lines += count_lines(&r, middle);
	}
	v->skip = lines > v->tail ? lines - v->tail : 0;
	v->collecting = false;
	return 0;
}

/* More than is kept: the older half goes, and a record that says so comes in its place. */
static int drop_oldest(struct log_view *v)
{
	struct log_record r;
	size_t at = 0;

	while (at < LOG_VIEW_MAX / 2) {
		int n = log_record_parse(v->in.data + at, v->in.len - at, &r);
		if (n <= 0)
			return -EPROTO;
		at += (size_t)n;
	}
	at -= LOG_HEADER_SIZE;
	buf_consume(&v->in, at);
	v->checked -= at;
	log_header_encode(r.wall_ns, LOG_LOST, 0, v->in.data);
	return 0;
}

/* 1: the last lines are known. */
static int collect(struct log_view *v, bool ended)
{
	struct log_record r = {.which = LOG_WHICH_END};
	int n;

	while (r.which != LOG_LIVE) {
		n = log_record_parse(v->in.data + v->checked, v->in.len - v->checked, &r);
		if (n < 0)
			return n;
		if (n == 0)
			break;
		v->checked += (size_t)n;
		if (v->checked > LOG_VIEW_MAX && (n = drop_oldest(v)) < 0)
			return n;
	}
	if (r.which != LOG_LIVE && !ended)
		return 0;
	n = end_collecting(v);
	return n < 0 ? n : 1;
}

static void put_text(struct sink *to, const char *text)
{
	sink_append(to, text, strlen(text));
}

/* The next piece of the record's data; returns its size. */
static size_t show_piece(struct log_view *v, const struct log_record *r, struct sink *to)
{
	const unsigned char *data = r->data + v->done;
	size_t left = r->len - v->done, len = left;
	int stream = stream_of(r);

	if (v->timestamps || v->skip > 0 || v->skipped[stream])
		len = line_len(data, left);
	if (len > PIECE_MAX)
		len = PIECE_MAX;
	if (!v->middle[stream]) {
		v->skipped[stream] = v->skip > 0;
		v->skip -= v->skip > 0;
		if (v->timestamps && !v->skipped[stream]) {
			char when[CLOCK_RFC3339_SIZE];
			clock_rfc3339((int64_t)(r->wall_ns & INT64_MAX), when);
			put_text(to, when);
			put_text(to, " ");
		}
	}
	if (!v->skipped[stream])
		sink_append(to, data, len);
	v->middle[stream] = data[len - 1] != '\n';
	return len;
}

/* With times, a line is never inside another one: in one file, the one that has no end yet is cut.
 */
static void end_other_line(
	struct log_view *v, int stream, struct sink *to, const struct sink *other)
{
	bool *middle = &v->middle[!stream];

	if (!*middle || v->skipped[!stream] || !sink_is_same(to, other))
		return;
	put_text(to, "\n");
	*middle = false;
}

/* The record at v->at, as far as there is room. 1: it is done. */
static int show(struct log_view *v, const struct log_record *r, struct sink *out, struct sink *err)
{
	struct sink *to = r->which == LOG_STDOUT ? out : err;
	struct sink *other = to == out ? err : out;

	/* Both may be the same file: what is shown later is written later. */
	if (r->which != LOG_LIVE && sink_pending(other) > 0)
		return 0;
	if (v->timestamps && r->len > 0 && v->done == 0)
		end_other_line(v, stream_of(r), to, other);
	switch (r->which) {
	case LOG_STDOUT:
	case LOG_STDERR:
		while (v->done < r->len && sink_room(to) >= ROOM_MIN)
			v->done += (uint32_t)show_piece(v, r, to);
		return v->done == r->len;
	case LOG_LOST:
		if (sink_room(err) < ROOM_MIN)
			return 0;
		if (v->skip == 0)
			put_text(err, lost_notice);
		return 1;
	case LOG_LIVE:
		v->live = true;
		return 1;
	case LOG_WHICH_END:
		break;
	}
	return -EPROTO;
}

int log_view_pump(struct log_view *v, struct sink *out, struct sink *err, bool ended)
{
	struct log_record r;
	int n;

	if (v->collecting && (n = collect(v, ended)) <= 0)
		return n < 0 ? n : v->in.len > 0;
	for (;;) {
		int size = log_record_parse(v->in.data + v->at, v->in.len - v->at, &r);
		if (size < 0)
			return size;
		if (size == 0)
			break;
		if ((n = show(v, &r, out, err)) <= 0)
			return n < 0 ? n : 1;
		v->at += (size_t)size;
		v->done = 0;
	}
	if (!ended)
		return v->in.len > v->at;
	return v->in.len > v->at ? -EPROTO : 0;
}

uint32_t log_view_grant(struct log_view *v)
{
	uint32_t grant = v->taken;

	/* What waits for the sinks is bounded by the window; what is collected, by LOG_VIEW_MAX. */
	if (!v->collecting && v->in.len - v->at > LOG_VIEW_WINDOW / 2)
		return 0;
	if (grant < LOG_VIEW_WINDOW / 4)
		return 0;
	v->taken = 0;
	v->window += grant;
	return grant;
}
