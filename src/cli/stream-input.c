/* SPDX-License-Identifier: Apache-2.0 */
#include "stream-internal.h"

#include "signals.h"
#include "terminal.h"

#include "../base/clock.h"
#include "../proto/client.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define STDIN_CHUNK (16u * 1024)
/* After SIGTERM or SIGHUP was passed on, a run that does not end by then is left (and so killed).
 */
#define SIGNAL_GRACE_MS 5000

static void put_u32_frame(struct stream *s, uint16_t type, uint32_t value)
{
	unsigned char le[4] = {(unsigned char)value, (unsigned char)(value >> 8),
		(unsigned char)(value >> 16), (unsigned char)(value >> 24)};

	frame_put(&s->out, type, 0, 0, le, sizeof(le));
}

void stream_put_size(struct stream *s, struct agent_size size)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, 64);
	agent_size_encode(&b, &size);
	frame_put(&s->out, CLIENT_RESIZE, 0, 0, b.data, b.len);
}

void stream_take_terminal(struct stream *s)
{
	enum terminal_mode mode = TERMINAL_RAW;

	if (!s->terminal || s->phase == LEAVING)
		return;
	/* Without -i nobody gets the keys: ^C stays a signal. */
	if (s->phase == ENDED || (s->phase == STARTED && !s->options->stdin_open))
		mode = TERMINAL_ENDING;
	(void)terminal_take(STDIN_FILENO, s->phase == WAITING ? TERMINAL_WAITING : mode);
}

static void take_signal(struct stream *s, int number)
{
	switch (number) {
	case SIGWINCH:
		s->resized = true;
		return;
	case SIGTSTP:
		terminal_stop();
		return;
	case SIGCONT:
		stream_take_terminal(s);
		s->resized = true;
		return;
	default:
		break;
	}
	if (s->phase != STARTED || s->signalled || s->options->own_signals ||
		(s->options->stays && number != SIGINT)) {
		s->status = 128 + number;
		return;
	}
	s->signalled = true;
	if (number != SIGINT) {
		s->signal = number;
		s->signal_deadline_ms = clock_mono_ms() + SIGNAL_GRACE_MS;
	}
	put_u32_frame(s, CLIENT_SIGNAL, (uint32_t)number);
}

void stream_take_signals(struct stream *s)
{
	struct signalfd_siginfo info;

	while (s->status < 0 && read(s->signal_fd, &info, sizeof(info)) == sizeof(info))
		take_signal(s, (int)info.ssi_signo);
}

/* A terminal is always read: the detach keys work whether or not the program reads. */
bool stream_wants_stdin(const struct stream *s)
{
	if (!s->options->stdin_open || s->stdin_done || s->phase == ENDED)
		return false;
	return s->terminal ? s->phase != WAITING : s->stdin_window > 0 && s->out.len < OUT_MAX / 2;
}

void stream_flush_input(struct stream *s)
{
	size_t len = s->typed.len < s->stdin_window ? s->typed.len : s->stdin_window;

	if (s->phase == ENDED || s->out.len > OUT_MAX / 2)
		return;
	if (len > 0) {
		s->stdin_window -= (uint32_t)len;
		frame_put(&s->out, CLIENT_STDIN, 0, 0, s->typed.data, len);
		buf_consume(&s->typed, len);
	}
	if (s->resized)
		stream_put_size(s, terminal_size());
	s->resized = false;
}

static void leave(struct stream *s)
{
	s->phase = LEAVING;
	s->stdin_done = true;
	terminal_restore();
	frame_put(&s->out, CLIENT_DETACH, 0, 0, NULL, 0);
}

/* What the program gets of what was read. */
static void take_stdin(struct stream *s, const unsigned char *data, size_t len)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, STDIN_CHUNK + DETACH_KEYS_MAX);
	bool leaving = detach_keys_feed(&s->detach, data, len, &b);
	size_t room = TYPED_MAX - s->typed.len;
	/* Only a terminal is read without a window. */
	buf_put(&s->typed, b.data, b.len < room ? b.len : room);
	s->out.failed = s->out.failed || buf_failed(&b) || buf_failed(&s->typed);
	stream_flush_input(s);
	if (leaving)
		leave(s);
}

void stream_read_stdin(struct stream *s)
{
	unsigned char chunk[STDIN_CHUNK];
	size_t len = sizeof(chunk);

	if (!s->terminal && s->stdin_window < len)
		len = s->stdin_window;
	ssize_t n = read(STDIN_FILENO, chunk, len);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n > 0) {
		take_stdin(s, chunk, (size_t)n);
		return;
	}
	/* A raw terminal has no end but that it went away. */
	if (s->terminal && s->options->stays) {
		s->status = 128 + SIGHUP;
		return;
	}
	/* A stdin that cannot be read (a folder, a terminal that went away) is at its end. */
	detach_keys_flush(&s->detach, &s->typed);
	stream_flush_input(s);
	s->stdin_done = true;
	frame_put(&s->out, CLIENT_STDIN_EOF, 0, 0, NULL, 0);
}

int stream_watch_signals(const struct stream_options *o, struct err *e)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};
	const size_t plain = 3,
		     n = o->tty && !o->detached ? sizeof(signals) / sizeof(signals[0]) : plain;

	return signals_watch(signals, n, e);
}
