/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One poll loop over the supervisor's socket, stdin, stdout, stderr and the signals. Each output
 * has a window of its own (sink.h), so a stalled stdout does not hold up stderr; stdin is read only
 * when its window and the queue towards the socket have room. Nothing here holds more than the
 * windows.
 *
 *   WAITING   the request is sent; the first signal ends the client, as there is nobody to get it
 *   STARTED   the first signal is forwarded, the second ends the client
 *   ENDED     RESULT came: what is pending is still written; the first signal ends the client
 *
 * Ending the client closes the socket, and the supervisor kills the run's whole tree.
 */
#include "stream.h"

#include "output.h"
#include "sink.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../proto/agent.h"
#include "../proto/client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define STDIN_CHUNK (16u * 1024)
#define OUT_MAX (256u * 1024) /* towards the socket; stdin waits above half of it */
#define STDIN_WINDOW_MAX (64u * 1024 * 1024)
/* The guest keeps --timeout itself; a VM that stands still cannot. What the client adds while it
 * waits for the program to start, and after that. */
#define START_BACKSTOP_MS 30000
#define BACKSTOP_MS 1800
/* After SIGTERM or SIGHUP was passed on, a run that does not end by then is left (and so killed).
 */
#define SIGNAL_GRACE_MS 5000

enum phase { WAITING, STARTED, ENDED };

struct stream {
	struct connection *c;
	const struct stream_options *options;
	struct sink sinks[2]; /* stdout, stderr */
	struct buf out;	      /* frames for the supervisor */
	uint32_t stdin_window;
	bool stdin_done;
	int signal_fd;
	bool signalled; /* one was forwarded */
	size_t turn;	/* the sink that is written first when both could be */
	enum phase phase;
	json_t *result;
	int status;		    /* the exit status; -1 while there is none */
	int64_t deadline_ms;	    /* the backstop of --timeout; -1: none */
	int64_t signal_deadline_ms; /* -1: none */
	int signal;		    /* what that is for */
};

static void put_u32_frame(struct stream *s, uint16_t type, uint32_t value)
{
	unsigned char le[4] = {(unsigned char)value, (unsigned char)(value >> 8),
		(unsigned char)(value >> 16), (unsigned char)(value >> 24)};

	frame_put(&s->out, type, 0, 0, le, sizeof(le));
}

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

	for (size_t i = 0; i < 2; i++) {
		uint32_t bytes = sink_grant(&s->sinks[i]);
		if (bytes)
			put_window(s, which[i], bytes);
	}
}

static int take_signals(struct stream *s)
{
	struct signalfd_siginfo info;

	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (s->phase != STARTED || s->signalled) {
			s->status = 128 + (int)info.ssi_signo;
			return 0;
		}
		s->signalled = true;
		if (info.ssi_signo != SIGINT) {
			s->signal = (int)info.ssi_signo;
			s->signal_deadline_ms = clock_mono_ms() + SIGNAL_GRACE_MS;
		}
		put_u32_frame(s, CLIENT_SIGNAL, info.ssi_signo);
	}
	return 0;
}

static bool wants_stdin(const struct stream *s)
{
	return s->options->stdin_open && !s->stdin_done && s->phase != ENDED &&
	       s->stdin_window > 0 && s->out.len < OUT_MAX / 2;
}

static void read_stdin(struct stream *s)
{
	unsigned char chunk[STDIN_CHUNK];
	size_t len = s->stdin_window < sizeof(chunk) ? s->stdin_window : sizeof(chunk);
	ssize_t n = read(STDIN_FILENO, chunk, len);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n > 0) {
		s->stdin_window -= (uint32_t)n;
		frame_put(&s->out, CLIENT_STDIN, 0, 0, chunk, (size_t)n);
		return;
	}
	/* A stdin that cannot be read (a folder, a terminal that went away) is at its end. */
	s->stdin_done = true;
	frame_put(&s->out, CLIENT_STDIN_EOF, 0, 0, NULL, 0);
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

static int take_frame(struct stream *s, const struct frame *f, struct err *e)
{
	int r = 0;

	switch (f->type) {
	case CLIENT_NOTICE:
		connection_notice(f);
		break;
	case CLIENT_STARTED:
		s->phase = STARTED;
		if (s->options->timeout_ms)
			s->deadline_ms =
				clock_mono_ms() + (int64_t)s->options->timeout_ms + BACKSTOP_MS;
		break;
	case CLIENT_STDOUT:
		r = sink_put(&s->sinks[0], f->payload, f->len);
		break;
	case CLIENT_STDERR:
		r = sink_put(&s->sinks[1], f->payload, f->len);
		break;
	case CLIENT_WINDOW:
		r = take_window(s, f);
		break;
	case CLIENT_RESULT:
		s->phase = ENDED;
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

static int write_socket(struct stream *s, struct err *e)
{
	ssize_t n = send(s->c->fd, s->out.data, s->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n >= 0)
		buf_consume(&s->out, (size_t)n);
	else if (errno == EPIPE || errno == ECONNRESET)
		buf_reset(&s->out); /* why it closed is still to be read */
	else if (errno != EAGAIN && errno != EINTR)
		return err_errno(e, errno, "writing to the supervisor of %s", s->c->name);
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

static int timed_out(const struct stream_options *o)
{
	output_notice("kosa8: run: timed out after %s", o->timeout ? o->timeout : "its time");
	return 124;
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
	if (wants_stdin(s))
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

/* One round of the loop. */
static int stream_process(struct stream *s, struct err *e)
{
	struct pollfd p[P_COUNT];
	int r;

	grant(s);
	want(s, p);
	int n = poll(p, P_COUNT, wait_ms(s));
	if (n < 0)
		return errno == EINTR ? 0 : err_errno(e, errno, "waiting for the run");
	if (n == 0) {
		s->status = clock_left_ms(s->signal_deadline_ms) == 0 ? 128 + s->signal
								      : timed_out(s->options);
		return 0;
	}
	if (p[P_SIGNAL].revents)
		return take_signals(s);
	if ((r = write_one_sink(s, p, e)) < 0)
		return r;
	if ((p[P_SOCKET].revents & POLLOUT) && (r = write_socket(s, e)) < 0)
		return r;
	if ((p[P_SOCKET].revents & ~POLLOUT) && (r = read_socket(s, e)) < 0)
		return r;
	if (p[P_STDIN].revents)
		read_stdin(s);
	return buf_failed(&s->out) ? err_set(e, ERR_IO, ENOMEM, "out of memory") : 0;
}

int stream_status(const json_t *result, const struct stream_options *o, struct err *e)
{
	static const char *const names[] = {"exited", "signaled", "timeout", "killed"};
	const char *how = "";
	uint64_t code = 0;
	bool oom = false;
	int r;

	if ((r = json_get_str(result, "how", 16, &how, e)) < 0 ||
		(r = json_get_u64_or(result, "code", 255, 0, &code, e)) < 0 ||
		(r = json_get_bool_or(result, "oom", false, &oom, e)) < 0)
		return err_wrap(e, "the run's result");
	if (oom)
		output_notice("kosa8: run: out of memory: the kernel of the sandbox ended it");
	if (strcmp(how, names[AGENT_END_EXITED]) == 0)
		return (int)code;
	if (strcmp(how, names[AGENT_END_SIGNALED]) == 0)
		return 128 + (int)(code & 127);
	if (strcmp(how, names[AGENT_END_TIMEOUT]) == 0)
		return timed_out(o);
	if (strcmp(how, names[AGENT_END_KILLED]) == 0)
		return 128 + SIGKILL;
	return err_set(e, ERR_PROTOCOL, 0, "the run's result: \"%.16s\" is no way to end", how);
}

/* Blocked and read from a descriptor. What is ignored stays so (nohup, background jobs). */
static int watch_signals(struct err *e)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	sigset_t set;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigemptyset(&set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct sigaction old;
		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			(void)sigaddset(&set, signals[i]);
	}
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? err_errno(e, errno, "cannot watch for signals") : fd;
}

static int stream_init(
	struct stream *s, struct connection *c, const struct stream_options *o, struct err *e)
{

	*s = (struct stream){
		.c = c, .options = o, .signal_fd = -1, .signal_deadline_ms = -1, .status = -1};
	sink_init(&s->sinks[0], STDOUT_FILENO);
	sink_init(&s->sinks[1], STDERR_FILENO);
	buf_init(&s->out, OUT_MAX);
	s->deadline_ms =
		o->timeout_ms ? clock_mono_ms() + (int64_t)o->timeout_ms + START_BACKSTOP_MS : -1;
	s->signal_fd = watch_signals(e);
	return s->signal_fd;
}

static void stream_release(struct stream *s)
{
	s->signal_fd = fd_close(s->signal_fd);
	sink_release(&s->sinks[0]);
	sink_release(&s->sinks[1]);
	buf_release(&s->out);
	json_decref(s->result);
}

static bool stream_over(const struct stream *s)
{
	return s->status >= 0 || (s->phase == ENDED && sink_pending(&s->sinks[0]) == 0 &&
					 sink_pending(&s->sinks[1]) == 0);
}

int stream_run(
	struct connection *c, const json_t *request, const struct stream_options *o, struct err *e)
{
	struct stream s;
	struct err late;
	int r = stream_init(&s, c, o, e);

	if (r >= 0)
		r = connection_request(c, request, e);
	while (r >= 0 && !stream_over(&s)) {
		r = stream_process(&s, e);
		/* A run that failed may have written before: that comes first. */
		while (r < 0 && s.phase == ENDED && !stream_over(&s))
			if (stream_process(&s, &late) < 0)
				break;
	}
	if (r >= 0 && s.status < 0)
		s.status = stream_status(s.result, o, e);
	if (r >= 0)
		r = s.status;
	stream_release(&s);
	return r;
}
