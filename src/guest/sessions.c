/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions.h"

#include "../base/clock.h"
#include "../base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A record and its header fit, so a read never yields nothing for lack of room. */
#define LOGS_BUFFER (LOG_DATA_MAX + 16 * LOG_HEADER_SIZE)

static const struct agent_exit ended_well = {.how = AGENT_END_EXITED};
static const struct agent_exit detached = {.how = AGENT_END_DETACHED};

static void send_exit(struct sessions *ss, uint32_t stream, const struct agent_exit *m)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, 64);
	agent_exit_encode(&b, m);
	mux_send_buf(ss->mux, AGENT_RUN_EXIT, stream, &b);
}

static void refuse(struct sessions *ss, uint32_t stream, int errnum, const char *text)
{
	struct agent_reply m = {.status = (uint32_t)errnum, .fail = AGENT_FAIL_SETUP};

	(void)snprintf(m.text, sizeof(m.text), "%.*s", AGENT_TEXT_MAX - 1, text);
	mux_reply(ss->mux, AGENT_RUN_FAILED, stream, &m);
}

static void release(struct session *s)
{
	container_log_reader_release(&s->reader);
	buf_release(&s->data);
	container_unpin(s->container);
}

/* Takes it out; the last one moves to its place. */
static void drop(struct sessions *ss, struct session *s)
{
	release(s);
	*s = ss->list[--ss->len];
}

static void end(struct sessions *ss, struct session *s, const struct agent_exit *m)
{
	if (s->kind == AGENT_LOGS)
		mux_send(ss->mux, AGENT_STDOUT_EOF, s->stream, NULL, 0);
	send_exit(ss, s->stream, m);
	drop(ss, s);
}

static struct session *add(
	struct sessions *ss, enum agent_type kind, uint32_t stream, const char *ref)
{
	struct err e;
	struct container_entry *c = containers_find(ss->containers, ref, &e);

	if (!c) {
		refuse(ss, stream, -err_code(&e), e.what);
		return NULL;
	}
	if (ss->len == SESSIONS_MAX) {
		refuse(ss, stream, EAGAIN, "too many clients look at containers");
		return NULL;
	}
	if (kind == AGENT_LOGS && c->dirfd < 0) {
		refuse(ss, stream, ENOENT,
			"the container has no log: it was started in the foreground");
		return NULL;
	}
	struct session *s = &ss->list[ss->len++];
	*s = (struct session){.kind = kind, .stream = stream, .container = c};
	container_pin(c);
	container_log_reader_init(&s->reader);
	buf_init(&s->data, LOGS_BUFFER);
	mux_send(ss->mux, AGENT_RUN_STARTED, stream, NULL, 0);
	return s;
}

static void on_logs(struct sessions *ss, uint32_t stream, struct cursor *c)
{
	struct agent_logs m;

	if (agent_logs_decode(c, &m) < 0)
		return refuse(ss, stream, EPROTO, "malformed LOGS");
	struct session *s = add(ss, AGENT_LOGS, stream, m.container);
	if (!s)
		return;
	s->follow = m.follow;
	s->since_ns = m.since_ns;
}

static void on_wait(struct sessions *ss, uint32_t stream, struct cursor *c)
{
	struct agent_ref m;

	if (agent_ref_decode(c, &m) < 0)
		return refuse(ss, stream, EPROTO, "malformed WAIT");
	(void)add(ss, AGENT_WAIT, stream, m.container);
}

static bool has_ended(const struct container_entry *c)
{
	return c->removed || c->is.state == AGENT_CONTAINER_ENDED;
}

static void on_list(struct sessions *ss, uint32_t stream)
{
	const struct containers *cs = ss->containers;

	mux_send(ss->mux, AGENT_RUN_STARTED, stream, NULL, 0);
	for (size_t i = 0; i < cs->len; i++) {
		cleanup_buf struct buf b = {0};
		struct agent_container m;

		/* One that is not kept goes away with its last process. */
		if (has_ended(cs->list[i]) && !container_is_kept(cs->list[i]))
			continue;
		container_describe(cs->list[i], &m);
		buf_init(&b, 4096);
		agent_container_encode(&b, &m);
		mux_send_buf(ss->mux, AGENT_CONTAINER, stream, &b);
	}
	send_exit(ss, stream, &ended_well);
}

void sessions_start(struct sessions *ss, const struct frame *f)
{
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	if (f->type == AGENT_LOGS)
		on_logs(ss, f->stream, &c);
	else if (f->type == AGENT_WAIT)
		on_wait(ss, f->stream, &c);
	else
		on_list(ss, f->stream);
}

static void on_window(struct session *s, const struct frame *f)
{
	struct agent_window m;
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	if (agent_window_decode(&c, &m) < 0 || m.which != AGENT_WHICH_STDOUT)
		return;
	s->window = m.bytes > AGENT_WINDOW_MAX - s->window ? AGENT_WINDOW_MAX : s->window + m.bytes;
}

static size_t find(const struct sessions *ss, uint32_t stream)
{
	size_t i = 0;

	while (i < ss->len && ss->list[i].stream != stream)
		i++;
	return i;
}

bool sessions_find(const struct sessions *ss, uint32_t stream)
{
	return find(ss, stream) < ss->len;
}

bool sessions_frame(struct sessions *ss, const struct frame *f)
{
	size_t i = find(ss, f->stream);

	if (i == ss->len)
		return false;
	if (f->type == AGENT_WINDOW)
		on_window(&ss->list[i], f);
	else if (f->type == AGENT_KILL || f->type == AGENT_DETACH)
		end(ss, &ss->list[i], &detached);
	return true;
}

/* 1: records came in. Else at_end is set. */
static int read_records(struct session *s)
{
	struct container_entry *c = s->container;

	if (c->removed || (s->at_end && s->seen == c->log_records))
		return 0;
	s->seen = c->log_records;
	s->at_end = false;
	int r = container_log_read(&c->log, &s->reader, s->since_ns, &s->data, LOGS_BUFFER);
	if (r < 0)
		log_warn("log of container %s: %s", c->is.id, strerror(-r));
	s->at_end = r <= 0;
	return s->data.len > 0 || !s->at_end;
}

static void say_live(struct session *s)
{
	unsigned char header[LOG_HEADER_SIZE];

	s->live = true;
	log_header_encode((uint64_t)clock_wall_ns(), LOG_LIVE, 0, header);
	buf_put(&s->data, header, sizeof(header));
}

static int send_records(struct sessions *ss, struct session *s)
{
	size_t n = s->data.len < AGENT_DATA_MAX ? s->data.len : AGENT_DATA_MAX;

	if (n > s->window)
		n = s->window;
	if (n == 0 || !mux_has_room(ss->mux))
		return 0;
	mux_send(ss->mux, AGENT_STDOUT, s->stream, s->data.data, n);
	buf_consume(&s->data, n);
	s->window -= (uint32_t)n;
	return 1;
}

static int step_logs(struct sessions *ss, struct session *s)
{
	if (s->data.len > 0)
		return send_records(ss, s);
	bool ended = has_ended(
		s->container); /* before the read: what is written till then is read by it */
	if (read_records(s))
		return 1;
	if (s->follow && !s->live) {
		say_live(s);
		return 1;
	}
	if (s->follow && !ended)
		return 0;
	end(ss, s, &ended_well);
	return 1;
}

int sessions_step(struct sessions *ss)
{
	int progress = 0;

	for (size_t i = ss->len; i > 0; i--) {
		struct session *s = &ss->list[i - 1];

		if (s->kind == AGENT_LOGS)
			progress |= step_logs(ss, s);
		else if (has_ended(s->container))
			end(ss, s, &s->container->is.exit);
	}
	return progress;
}

void sessions_forget(struct sessions *ss)
{
	while (ss->len > 0)
		drop(ss, &ss->list[ss->len - 1]);
}

void sessions_end_all(struct sessions *ss)
{
	while (ss->len > 0)
		end(ss, &ss->list[ss->len - 1], &detached);
}
