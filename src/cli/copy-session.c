/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One poll loop over the socket, the signals, and the pipe that a tree is read from or written to.
 * Files are read and written in between, in small steps. A signal ends the copy, which closes the
 * socket: the supervisor ends the guest's side.
 */
#include "copy-session.h"

#include "output.h"
#include "signals.h"

#include "../base/fd.h"
#include "../proto/agent.h"
#include "../proto/client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define FRAME_DATA (32u * 1024)
#define QUEUE_FULL (128u * 1024) /* towards the socket: nothing more is made ready */
#define QUEUE_MAX (QUEUE_FULL + 2 * TREE_SEND_PIECE)
#define TEXT_MAX 4096 /* of the guest's message */
#define GRANT_LEAST (AGENT_WINDOW_MAX / 4)
#define SEND_WINDOW_MAX (64u * 1024 * 1024)

struct copy {
	struct connection *c;
	struct copy_io *io;
	struct buf out;	    /* frames for the supervisor */
	struct buf pending; /* of the tree: not sent, or not written to to_fd, yet */
	size_t at;	    /* what is before it in pending was */
	struct tree_stream stream;
	struct skipped skipped;
	struct buf text; /* what the guest says on STDERR */
	uint32_t send_window;
	uint32_t window[2]; /* of STDOUT, STDERR: what may still come */
	uint32_t used;	    /* of STDOUT's, and not granted again yet */
	bool in;	    /* the tree goes in */
	bool started;	    /* the guest found where; before that nothing is read or sent */
	bool source_done, eof_sent;
	bool ended; /* RESULT came */
	int signal_fd;
	json_t *result;
};

static int out_of_memory(struct err *e)
{
	return err_set(e, ERR_IO, ENOMEM, "out of memory");
}

static size_t left(const struct copy *s)
{
	return s->pending.len - s->at;
}

static void use(struct copy *s, size_t n)
{
	s->at += n;
	if (s->at == s->pending.len) {
		buf_reset(&s->pending);
		s->at = 0;
	}
}

/* ---- the request ---- */

/* One string as client_bytes_encode() has it. */
static json_t *bytes(const char *s)
{
	char *v[] = {(char *)s, NULL};

	return client_bytes_encode(v);
}

json_t *copy_request(const struct context *c, const char *kind, const char *container,
	const char *path, const char *name, bool contents, uint32_t mount)
{
	json_t *request = context_request(c, "copy");
	json_t *members = json_pack("{s:s, s:s, s:o, s:o, s:b, s:I}", "kind", kind, "container",
		container, "path", bytes(path), "name", bytes(name), "contents", contents, "mount",
		(json_int_t)mount);

	if (!request || !members || json_object_update(request, members) < 0) {
		json_decref(request);
		request = NULL;
	}
	json_decref(members);
	return request;
}

/* ---- towards the supervisor ---- */

static void grant(struct copy *s, enum agent_which which, uint32_t count)
{
	struct agent_window w = {.which = which, .bytes = count};
	cleanup_buf struct buf b = {0};

	buf_init(&b, 64);
	agent_window_encode(&b, &w);
	frame_put(&s->out, CLIENT_WINDOW, 0, 0, b.data, b.len);
	s->window[which - AGENT_WHICH_STDOUT] += count;
}

static void grant_again(struct copy *s)
{
	if (s->used < GRANT_LEAST)
		return;
	grant(s, AGENT_WHICH_STDOUT, s->used);
	s->used = 0;
}

/* What is pending, as far as the window goes. */
static void put_pending(struct copy *s)
{
	while (left(s) > 0 && s->send_window > 0 && s->out.len < QUEUE_FULL) {
		size_t n = left(s) < FRAME_DATA ? left(s) : FRAME_DATA;
		n = n < s->send_window ? n : s->send_window;
		frame_put(&s->out, CLIENT_STDIN, 0, 0, s->pending.data + s->at, n);
		s->send_window -= (uint32_t)n;
		use(s, n);
	}
	if (left(s) == 0 && s->source_done && !s->eof_sent) {
		frame_put(&s->out, CLIENT_STDIN_EOF, 0, 0, NULL, 0);
		s->eof_sent = true;
	}
}

/* Whether the next piece of the tree is wanted now. */
static bool wants_source(const struct copy *s)
{
	return s->in && s->started && !s->source_done && !s->ended && left(s) == 0 &&
	       s->send_window > 0 && s->out.len < QUEUE_FULL;
}

static int fill_from_files(struct copy *s, struct err *e)
{
	int r = 1;

	while (r > 0 && s->pending.len < FRAME_DATA)
		r = tree_send_more(s->io->send, &s->pending, e);
	s->source_done = r == 0;
	return r < 0 ? r : 0;
}

static int fill_from_pipe(struct copy *s, struct err *e)
{
	unsigned char *to = buf_extend(&s->pending, FRAME_DATA);
	ssize_t n = to ? read(s->io->from_fd, to, FRAME_DATA) : 0;

	if (!to)
		return out_of_memory(e);
	s->pending.len -= FRAME_DATA - (n > 0 ? (size_t)n : 0);
	if (n < 0)
		return errno == EINTR ? 0 : err_errno(e, errno, "reading the tree");
	if (n == 0 && !s->stream.ended)
		return err_set(e, ERR_CANCELLED, EPIPE, "the tar was not read to its end");
	s->source_done = n == 0;
	return tree_stream_put(&s->stream, to, n > 0 ? (size_t)n : 0, e);
}

/* ---- from the supervisor ---- */

static int take_window(struct copy *s, const struct frame *f)
{
	struct agent_window w;
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	if (agent_window_decode(&c, &w) < 0 || w.which != AGENT_WHICH_STDIN ||
		w.bytes > SEND_WINDOW_MAX - s->send_window)
		return -EPROTO;
	s->send_window += w.bytes;
	return 0;
}

static int take_tree(struct copy *s, const struct frame *f, struct err *e)
{
	int r = tree_stream_put(&s->stream, f->payload, f->len, e);

	if (r == 0 && s->io->to_fd >= 0) {
		/* At most a window is left, so what is moved was half of it or more. */
		if (s->at > AGENT_WINDOW_MAX / 2) {
			buf_consume(&s->pending, s->at);
			s->at = 0;
		}
		buf_put(&s->pending, f->payload, f->len);
	} else {
		s->used += (uint32_t)f->len;
	}
	return r < 0 ? r : buf_failed(&s->pending) ? out_of_memory(e) : 0;
}

static int take_data(struct copy *s, const struct frame *f, uint32_t *window)
{
	if (s->in && window == &s->window[0])
		return -EPROTO;
	if (f->len > *window)
		return -EPROTO;
	*window -= (uint32_t)f->len;
	return 0;
}

static int take_frame(struct copy *s, const struct frame *f, struct err *e)
{
	int r = 0;

	switch (f->type) {
	case CLIENT_NOTICE:
		copy_progress_clear(s->io->progress);
		connection_notice(f);
		break;
	case CLIENT_STARTED:
		s->started = true;
		break;
	case CLIENT_STDOUT:
		if ((r = take_data(s, f, &s->window[0])) == 0)
			return take_tree(s, f, e);
		break;
	case CLIENT_STDERR:
		if ((r = take_data(s, f, &s->window[1])) == 0)
			buf_put(&s->text, f->payload, f->len); /* the rest is dropped */
		break;
	case CLIENT_WINDOW:
		r = take_window(s, f);
		break;
	case CLIENT_RESULT:
		s->ended = true;
		return connection_result(s->c, f, &s->result, e);
	default:
		r = -EPROTO;
	}
	if (r < 0)
		return err_set(e, ERR_PROTOCOL, -r,
			"the supervisor of %s sent what it may not send", s->c->name);
	return 0;
}

static int read_socket(struct copy *s, struct err *e)
{
	struct frame f;
	ssize_t got = connection_fill(s->c);
	int r;

	if (got == -EAGAIN)
		return 0;
	if (got < 0)
		return err_errno(e, (int)-got, "reading from the supervisor of %s", s->c->name);
	if (got == 0)
		return connection_lost(s->c, e);
	while (!s->ended && (r = connection_frame(s->c, &f)) != 0) {
		if (r < 0)
			return err_set(e, ERR_PROTOCOL, 0,
				"the supervisor of %s sent what is no frame", s->c->name);
		if ((r = take_frame(s, &f, e)) < 0)
			return r;
	}
	return 0;
}

static int write_pipe(struct copy *s, struct err *e)
{
	ssize_t n = write(s->io->to_fd, s->pending.data + s->at, left(s));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n < 0)
		return err_set(e, ERR_CANCELLED, errno, "the tar was not written to its end");
	use(s, (size_t)n);
	s->used += (uint32_t)n;
	/* Who has it all may end before RESULT comes. */
	if (s->stream.ended && left(s) == 0)
		s->io->to_fd = fd_close(s->io->to_fd);
	return 0;
}

/* ---- the loop ---- */

static int take_signal(struct copy *s, struct err *e)
{
	struct signalfd_siginfo info;

	if (read(s->signal_fd, &info, sizeof(info)) != sizeof(info))
		return 0;
	s->io->signal = (int)info.ssi_signo;
	return err_set(e, ERR_CANCELLED, EINTR, "cp: interrupted");
}

enum { P_SOCKET, P_SIGNAL, P_FROM, P_TO, P_COUNT };

static int wait_events(const struct copy *s, struct pollfd p[P_COUNT], struct err *e)
{
	bool ready = wants_source(s) && s->io->send;
	int timeout = ready ? 0 : s->io->progress->moves ? COPY_TICK_MS : -1;

	for (size_t i = 0; i < P_COUNT; i++)
		p[i] = (struct pollfd){.fd = -1};
	p[P_SIGNAL] = (struct pollfd){.fd = s->signal_fd, .events = POLLIN};
	if (!s->ended)
		p[P_SOCKET] = (struct pollfd){
			.fd = s->c->fd, .events = POLLIN | (s->out.len > 0 ? POLLOUT : 0)};
	if (wants_source(s) && s->io->from_fd >= 0)
		p[P_FROM] = (struct pollfd){.fd = s->io->from_fd, .events = POLLIN};
	if (s->io->to_fd >= 0)
		p[P_TO] = (struct pollfd){.fd = s->io->to_fd, .events = left(s) > 0 ? POLLOUT : 0};
	if (poll(p, P_COUNT, timeout) < 0 && errno != EINTR)
		return err_errno(e, errno, "waiting for the copy");
	return 0;
}

static void show_progress(const struct copy *s)
{
	const struct tree_send *send = s->io->send;

	copy_progress_at(s->io->progress, send ? send->bytes : s->stream.bytes,
		send ? send->entries : s->stream.entries);
}

static int copy_process(struct copy *s, struct err *e)
{
	struct pollfd p[P_COUNT];
	int r = wait_events(s, p, e);

	if (r == 0 && p[P_SIGNAL].revents)
		r = take_signal(s, e);
	if (r == 0 && (p[P_SOCKET].revents & POLLOUT))
		r = connection_write(s->c, &s->out, e);
	if (r == 0 && (p[P_SOCKET].revents & ~POLLOUT))
		r = read_socket(s, e);
	if (r == 0 && p[P_TO].revents)
		r = left(s) > 0 ? write_pipe(s, e)
				: err_set(e, ERR_CANCELLED, EPIPE, "nobody reads the tar");
	if (r == 0 && p[P_FROM].revents)
		r = fill_from_pipe(s, e);
	if (r == 0 && wants_source(s) && s->io->send)
		r = fill_from_files(s, e);
	if (r < 0)
		return r;
	if (s->in)
		put_pending(s);
	else
		grant_again(s);
	show_progress(s);
	return buf_failed(&s->out) || buf_failed(&s->pending) ? out_of_memory(e) : 0;
}

/* ---- the end ---- */

static int guest_failed(struct copy *s, struct err *e)
{
	const char *text = buf_failed(&s->text) ? NULL : buf_cstr(&s->text);

	if (!text || !*text)
		return err_set(e, ERR_IO, 0, "the copy failed in the sandbox");
	return err_set(e, ERR_IO, 0, "%.*s", (int)strcspn(text, "\n"), text);
}

static int check_result(struct copy *s, struct err *e)
{
	const char *how = "";
	uint64_t code = 0;
	int r;

	if ((r = json_get_str_or(s->result, "how", 16, "exited", &how, e)) < 0 ||
		(r = json_get_u64_or(s->result, "code", 255, 0, &code, e)) < 0)
		return err_wrap(e, "the copy's result");
	if (strcmp(how, "exited") != 0)
		return err_set(e, ERR_CANCELLED, 0, "the copy was ended in the sandbox");
	if (code != 0)
		return guest_failed(s, e);
	if (s->in ? !s->eof_sent : !s->stream.ended)
		return err_set(e, ERR_PROTOCOL, 0, "the sandbox ended the copy too early");
	return 0;
}

static int raw_entry(void *ctx, const struct tree_entry *m, struct err *e)
{
	struct copy *s = ctx;

	(void)e;
	if (m->type == TREE_SKIPPED)
		skipped_add(&s->skipped, m->path);
	return 0;
}

static int raw_data(void *ctx, const void *data, size_t len, struct err *e)
{
	(void)ctx;
	(void)data;
	(void)len;
	(void)e;
	return 0;
}

static int raw_file_end(void *ctx, struct err *e)
{
	(void)ctx;
	(void)e;
	return 0;
}

static int raw_end(void *ctx, struct err *e)
{
	struct copy *s = ctx;

	(void)e;
	skipped_end(&s->skipped);
	return 0;
}

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

void copy_unblock_signals(void)
{
	signals_unblock(signals, sizeof(signals) / sizeof(signals[0]));
}

int copy_watch_signals(struct err *e)
{
	return signals_watch(signals, sizeof(signals) / sizeof(signals[0]), e);
}

static int copy_all(struct copy *s, const json_t *request, struct err *e)
{
	int r = s->signal_fd < 0 ? s->signal_fd : connection_request(s->c, request, e);

	grant(s, AGENT_WHICH_STDERR, TEXT_MAX);
	if (!s->in)
		grant(s, AGENT_WHICH_STDOUT, AGENT_WINDOW_MAX);
	while (r >= 0 && !(s->ended && (s->in || left(s) == 0)))
		r = copy_process(s, e);
	copy_progress_clear(s->io->progress);
	return r < 0 ? r : check_result(s, e);
}

int copy_run(struct connection *c, const json_t *request, struct copy_io *io, struct err *e)
{
	struct copy *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return out_of_memory(e);
	*s = (struct copy){.c = c,
		.io = io,
		.in = io->send || io->from_fd >= 0,
		.skipped = {.progress = io->progress}};
	const struct tree_sink raw = {raw_entry, raw_data, raw_file_end, raw_end, s};
	buf_init(&s->out, QUEUE_MAX);
	buf_init(&s->pending, 2 * AGENT_WINDOW_MAX);
	buf_init(&s->text, TEXT_MAX);
	tree_stream_init(&s->stream, io->sink ? io->sink : &raw);
	s->signal_fd = copy_watch_signals(e);
	r = copy_all(s, request, e);
	io->to_fd = fd_close(io->to_fd);
	(void)fd_close(s->signal_fd);
	buf_release(&s->out);
	buf_release(&s->pending);
	buf_release(&s->text);
	tree_stream_release(&s->stream);
	json_decref(s->result);
	free(s);
	return r;
}
