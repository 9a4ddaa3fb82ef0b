/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One poll loop over the supervisor's socket, stdin, stdout, stderr and the signals. Each output
 * has a window of its own (sink.h), so a stalled stdout does not hold up stderr; stdin is read only
 * when its window and the queue towards the socket have room. Nothing here holds more than the
 * windows.
 *
 *   WAITING   the request is sent; the first signal ends the client, as there is nobody to get it
 *   STARTED   the first signal is forwarded, the second ends the client
 *   LEAVING   DETACH is sent, the terminal is given back; the first signal ends the client
 *   ENDED     RESULT came: what is pending is still written; the first signal ends the client
 *
 * Of a program that stays (attach), only SIGINT is forwarded; all else ends the client.
 *
 * Ending the client closes the socket, and the supervisor kills the whole tree of its run or exec;
 * what it was attached to goes on.
 * A terminal is taken (terminal.h) once the signals are blocked, and its size goes into the request
 * after that, so no change of it is lost.
 */
#include "stream.h"

#include "stream-internal.h"

#include "log-view.h"
#include "terminal.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../proto/client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#define STDIN_WINDOW_MAX (64u * 1024 * 1024)
/* The guest keeps --timeout itself; a VM that stands still cannot. What the client adds while it
 * waits for the program to start, and after that. */
#define START_BACKSTOP_MS 10000
#define BACKSTOP_MS 1800

static void put_window(struct stream *s, enum agent_which which, uint32_t bytes)
{
	struct agent_window w = {.which = which, .bytes = bytes};
	cleanup_buf struct buf b = {0};

	buf_init(&b, 64);
	agent_window_encode(&b, &w);
	frame_put(&s->out, CLIENT_WINDOW, 0, 0, b.data, b.len);
}

static void grant(struct stream *s)
{
	static const enum agent_which which[] = {AGENT_WHICH_STDOUT, AGENT_WHICH_STDERR};

	if (s->options->logs) {
		uint32_t bytes = log_view_grant(s->options->logs);
		if (bytes)
			put_window(s, AGENT_WHICH_STDOUT, bytes);
		return;
	}
	for (size_t i = 0; i < 2; i++) {
		uint32_t bytes = sink_grant(&s->sinks[i]);
		if (bytes)
			put_window(s, which[i], bytes);
	}
}

static int take_window(struct stream *s, const struct frame *f)
{
	struct agent_window w;
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	if (agent_window_decode(&c, &w) < 0 || w.which != AGENT_WHICH_STDIN ||
		w.bytes > STDIN_WINDOW_MAX - s->stdin_window)
		return -EPROTO;
	s->stdin_window += w.bytes;
	return 0;
}

static void take_started(struct stream *s)
{
	if (s->phase != WAITING)
		return;
	s->phase = STARTED;
	stream_take_terminal(s);
	if (s->options->timeout_ms)
		s->deadline_ms = clock_mono_ms() + (int64_t)s->options->timeout_ms + BACKSTOP_MS;
	if (s->options->tty && s->options->redraw) {
		struct agent_size size = terminal_size(), other = size;
		other.rows = (uint16_t)(size.rows < UINT16_MAX ? size.rows + 1 : size.rows - 1);
		stream_put_size(s, other);
		stream_put_size(s, size);
	}
}

static int take_output(struct stream *s, size_t which, const struct frame *f)
{
	s->logs_left = s->options->logs;
	if (!s->options->logs)
		return sink_put(&s->sinks[which], f->payload, f->len);
	return which == 0 ? log_view_put(s->options->logs, f->payload, f->len) : -EPROTO;
}

static int take_frame(struct stream *s, const struct frame *f, struct err *e)
{
	int r = 0;

	switch (f->type) {
	case CLIENT_NOTICE:
		connection_notice(f);
		break;
	case CLIENT_STARTED:
		take_started(s);
		break;
	case CLIENT_STDOUT:
		r = take_output(s, 0, f);
		break;
	case CLIENT_STDERR:
		r = take_output(s, 1, f);
		break;
	case CLIENT_WINDOW:
		r = take_window(s, f);
		break;
	case CLIENT_RESULT:
		s->phase = ENDED;
		stream_take_terminal(s);
		return connection_result(s->c, f, &s->result, e);
	default:
		r = -EPROTO;
	}
	if (r < 0)
		return err_set(e, ERR_PROTOCOL, -r,
			"the supervisor of %s sent what it may not send", s->c->name);
	return 0;
}

static int read_socket(struct stream *s, struct err *e)
{
	struct frame f;
	ssize_t got = connection_fill(s->c);
	int r;

	if (got == -EAGAIN)
		return 0;
	if (got < 0)
		return err_errno(e, (int)-got, "reading from the supervisor of %s", s->c->name);
	if (got == 0) {
		s->phase = ENDED;
		return connection_lost(s->c, e);
	}
	while (s->phase != ENDED && (r = connection_frame(s->c, &f)) != 0) {
		if (r < 0)
			return err_set(e, ERR_PROTOCOL, 0,
				"the supervisor of %s sent what is no frame", s->c->name);
		if ((r = take_frame(s, &f, e)) < 0)
			return r;
	}
	return 0;
}

static int write_sink(struct stream *s, struct sink *sink, struct err *e)
{
	ssize_t n = sink_write(sink);

	if (n >= 0 || n == -EAGAIN)
		return 0;
	if (n == -EPIPE || n == -ECONNRESET) {
		/* Like a program that SIGPIPE ends: quietly. */
		s->status = 128 + SIGPIPE;
		return 0;
	}
	return err_errno(e, (int)-n, "writing the command's output");
}

enum { P_SOCKET, P_SIGNAL, P_STDIN, P_STDOUT, P_STDERR, P_COUNT };

static void want(const struct stream *s, struct pollfd p[P_COUNT])
{
	for (size_t i = 0; i < P_COUNT; i++)
		p[i] = (struct pollfd){.fd = -1};
	p[P_SIGNAL] = (struct pollfd){.fd = s->signal_fd, .events = POLLIN};
	if (s->phase != ENDED) {
		p[P_SOCKET] = (struct pollfd){.fd = s->c->fd, .events = POLLIN};
		if (s->out.len > 0)
			p[P_SOCKET].events |= POLLOUT;
	}
	if (stream_wants_stdin(s))
		p[P_STDIN] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
	/* Also with nothing to write: a reader that went away is an error of the descriptor. */
	for (size_t i = 0; i < 2; i++)
		p[P_STDOUT + i] = (struct pollfd){.fd = s->sinks[i].fd,
			.events = sink_pending(&s->sinks[i]) > 0 ? POLLOUT : 0};
}

/* The nearer of the two deadlines, for poll(2). */
static int wait_ms(const struct stream *s)
{
	int a = clock_left_ms(s->deadline_ms), b = clock_left_ms(s->signal_deadline_ms);

	if (s->phase == ENDED)
		return -1;
	if (a < 0 || b < 0)
		return a < 0 ? b : a;
	return a < b ? a : b;
}

/* One a round, in turn: both may be the same pipe, which has room for one write only. */
static int write_one_sink(struct stream *s, const struct pollfd p[P_COUNT], struct err *e)
{
	for (size_t i = 0; i < 2; i++) {
		size_t which = (s->turn + i) % 2;
		if (!p[P_STDOUT + which].revents)
			continue;
		s->turn = 1 - which;
		if (sink_pending(&s->sinks[which]) == 0) {
			s->status = 128 + SIGPIPE;
			return 0;
		}
		return write_sink(s, &s->sinks[which], e);
	}
	return 0;
}

static int show_logs(struct stream *s, struct err *e)
{
	if (!s->options->logs || s->logs_bad)
		return 0;
	int r = log_view_pump(s->options->logs, &s->sinks[0], &s->sinks[1], s->phase == ENDED);
	s->logs_left = r > 0;
	if (r >= 0)
		return 0;
	/* What was shown before is still written. */
	s->logs_bad = true;
	s->phase = ENDED;
	return err_set(e, ERR_PROTOCOL, -r, "the sandbox sent what is no log of %s",
		s->options->container);
}

static bool stream_over(const struct stream *s)
{
	return s->status >= 0 ||
	       (s->phase == ENDED && !s->logs_left && sink_pending(&s->sinks[0]) == 0 &&
		       sink_pending(&s->sinks[1]) == 0);
}

/* One round of the loop. */
static int stream_process(struct stream *s, struct err *e)
{
	struct pollfd p[P_COUNT];
	int r;

	if ((r = show_logs(s, e)) < 0 || stream_over(s))
		return r;
	stream_flush_input(s);
	grant(s);
	want(s, p);
	int n = poll(p, P_COUNT, wait_ms(s));
	if (n < 0)
		return errno == EINTR ? 0 : err_errno(e, errno, "waiting for the run");
	if (n == 0) {
		s->status = clock_left_ms(s->signal_deadline_ms) == 0
				    ? 128 + s->signal
				    : stream_timed_out(s->options);
		return 0;
	}
	if (p[P_SIGNAL].revents) {
		stream_take_signals(s);
		return 0;
	}
	if ((r = write_one_sink(s, p, e)) < 0)
		return r;
	if ((p[P_SOCKET].revents & POLLOUT) && (r = connection_write(s->c, &s->out, e)) < 0)
		return r;
	if ((p[P_SOCKET].revents & ~POLLOUT) && (r = read_socket(s, e)) < 0)
		return r;
	if (p[P_STDIN].revents)
		stream_read_stdin(s);
	return buf_failed(&s->out) ? err_set(e, ERR_IO, ENOMEM, "out of memory") : 0;
}

static int stream_init(
	struct stream *s, struct connection *c, const struct stream_options *o, struct err *e)
{
	*s = (struct stream){.c = c,
		.options = o,
		.signal_fd = -1,
		.signal_deadline_ms = -1,
		.status = -1,
		.terminal = o->tty && !o->detached && isatty(STDIN_FILENO)};
	if (s->terminal && o->stdin_open)
		s->detach = o->detach_keys;
	sink_init(&s->sinks[0], STDOUT_FILENO);
	sink_init(&s->sinks[1], STDERR_FILENO);
	buf_init(&s->out, OUT_MAX);
	buf_init(&s->typed, TYPED_MAX + DETACH_KEYS_MAX);
	s->deadline_ms =
		o->timeout_ms ? clock_mono_ms() + (int64_t)o->timeout_ms + START_BACKSTOP_MS : -1;
	s->signal_fd = stream_watch_signals(o, e);
	return s->signal_fd;
}

static void stream_release(struct stream *s)
{
	s->signal_fd = fd_close(s->signal_fd);
	sink_release(&s->sinks[0]);
	sink_release(&s->sinks[1]);
	buf_release(&s->out);
	buf_release(&s->typed);
	json_decref(s->result);
}

/* After the signals are blocked: a change from now on is a SIGWINCH. */
static int take_size(json_t *request, const struct stream_options *o, struct err *e)
{
	struct agent_size size = terminal_size();

	if (!o->tty)
		return 0;
	if (json_object_set_new(request, "rows", json_integer(size.rows)) < 0 ||
		json_object_set_new(request, "columns", json_integer(size.columns)) < 0)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	return 0;
}

static int carry(struct stream *s, json_t *request, struct err *e)
{
	struct err late;
	int r;

	stream_take_terminal(s);
	if ((r = take_size(request, s->options, e)) >= 0)
		r = connection_request(s->c, request, e);
	while (r >= 0 && !stream_over(s)) {
		r = stream_process(s, e);
		/* A run that failed may have written before: that comes first. */
		while (r < 0 && s->phase == ENDED && !stream_over(s))
			if (stream_process(s, &late) < 0)
				break;
	}
	return r;
}

int stream_run(struct connection *c, json_t *request, const struct stream_options *o, struct err *e)
{
	struct stream s;
	int r = stream_init(&s, c, o, e);

	if (r >= 0)
		r = carry(&s, request, e);
	terminal_restore();
	if (r >= 0 && s.status < 0)
		s.status = o->logs ? 0 : stream_status(s.result, c->name, o, e);
	if (r >= 0)
		r = s.status;
	stream_release(&s);
	return r;
}
