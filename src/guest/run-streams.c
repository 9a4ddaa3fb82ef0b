/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A terminal is one descriptor for both directions: out[0] has it, `in` a copy; out[1] has nothing.
 */
#include "run-streams.h"

#include "../base/fd.h"
#include "../base/log.h"
#include "run.h"
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* A grant is worth a frame when so much was written, or when all was. */
#define GRANT_MIN (32u * 1024)
/* What a terminal can hold: more than this comes from somebody who goes on writing. */
#define TERMINAL_DRAIN_MAX (256u * 1024)

static void send_grant(struct runs *rs, struct run *r, uint32_t bytes)
{
	struct agent_window m = {.which = AGENT_WHICH_STDIN, .bytes = bytes};
	cleanup_buf struct buf b = {0};

	r->in.granted += bytes;
	if (!r->client.present)
		return;
	buf_init(&b, 64);
	agent_window_encode(&b, &m);
	mux_send_buf(rs->mux, AGENT_WINDOW, r->client.stream, &b);
}

void run_stdin_grant(struct runs *rs, struct run *r)
{
	size_t room = RUN_STDIN_WINDOW - r->in.data.len;

	if (!r->in.eof && room > r->in.granted)
		send_grant(rs, r, (uint32_t)room - r->in.granted);
}

static int open_output(struct runs *rs, struct run_output *o, int *ret_child, struct err *e)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_errno(e, errno, "pipe");
	*ret_child = p[1];
	int r = fd_set_nonblock(p[0], true);
	if (r < 0) {
		(void)fd_close(p[0]);
		return err_errno(e, -r, "pipe");
	}
	return loop_watch(rs->loop, &o->pipe, p[0], WATCH_READ, e);
}

static int open_input(struct runs *rs, struct run *run, int *ret_child, struct err *e)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_errno(e, errno, "pipe");
	*ret_child = p[0];
	int r = fd_set_nonblock(p[1], true);
	if (r < 0) {
		(void)fd_close(p[1]);
		return err_errno(e, -r, "pipe");
	}
	return loop_watch(rs->loop, &run->in.pipe, p[1], WATCH_WRITE, e);
}

int run_streams_open(struct runs *rs, struct run *r, int ret_child[static 3], struct err *e)
{
	bool wanted = r->flags & AGENT_STDIN_OPEN;
	int n;

	buf_init(&r->in.data, RUN_STDIN_WINDOW);
	r->in.eof = !wanted;
	/* A client that leaves as soon as it runs has nothing to send. */
	if (wanted && !r->pending_detach)
		run_stdin_grant(rs, r);
	if (r->flags & AGENT_TTY)
		return 0;
	if (wanted) {
		n = open_input(rs, r, &ret_child[0], e);
		if (n < 0)
			return n;
	} else {
		ret_child[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (ret_child[0] < 0)
			return err_errno(e, errno, "/dev/null");
	}
	if ((n = open_output(rs, &r->out[0], &ret_child[1], e)) < 0)
		return n;
	return open_output(rs, &r->out[1], &ret_child[2], e);
}

int run_streams_terminal(struct runs *rs, struct run *r, int master, struct err *e)
{
	cleanup_fd int fd = master;
	int n = fd_set_nonblock(fd, true);

	if (n < 0)
		return err_errno(e, -n, "terminal");
	cleanup_fd int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return err_errno(e, errno, "terminal");
	n = loop_watch(rs->loop, &r->out[0].pipe, fd_take(&fd), WATCH_READ, e);
	return n < 0 ? n : loop_watch(rs->loop, &r->in.pipe, fd_take(&copy), WATCH_WRITE, e);
}

void run_streams_close(struct runs *rs, struct run *r)
{
	loop_unwatch(rs->loop, &r->in.pipe);
	loop_unwatch(rs->loop, &r->out[0].pipe);
	loop_unwatch(rs->loop, &r->out[1].pipe);
	buf_release(&r->in.data);
}

void run_resize(struct run *r, const struct agent_size *size)
{
	if (!(r->flags & AGENT_TTY) || r->out[0].pipe.fd < 0)
		return;
	int n = terminal_resize(r->out[0].pipe.fd, size);
	if (n < 0)
		log_warn("resize a terminal: %s", strerror(-n));
}

int run_stdin_data(struct runs *rs, struct run *r, const struct frame *f)
{
	if (r->in.eof)
		return 0;
	if (f->len > r->in.granted)
		return -EPROTO;
	r->in.granted -= (uint32_t)f->len;
	if (r->in.pipe.fd >= 0 || r->state == RUN_STARTING || r->state == RUN_WAITING) {
		buf_put(&r->in.data, f->payload, f->len);
		return 0;
	}
	/* The program closed its stdin: what comes is dropped, and must not stop the sender. */
	send_grant(rs, r, (uint32_t)f->len);
	return 0;
}

void run_window(struct run *r, const struct frame *f)
{
	struct agent_window m;
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	if (agent_window_decode(&c, &m) < 0 || m.which == AGENT_WHICH_STDIN)
		return;
	struct run_output *o = &r->out[m.which - AGENT_WHICH_STDOUT];
	o->window = m.bytes > AGENT_WINDOW_MAX - o->window ? AGENT_WINDOW_MAX : o->window + m.bytes;
}

static void note_line(struct run_input *in, unsigned char last)
{
	in->line_begun = last != '\n' && last != '\r';
}

/* 1: something was written. */
static int write_some(struct runs *rs, struct run *r)
{
	struct run_input *in = &r->in;
	ssize_t n = write(in->pipe.fd, in->data.data, in->data.len);

	if (n > 0) {
		note_line(in, in->data.data[n - 1]);
		buf_consume(&in->data, (size_t)n);
		in->consumed += (uint32_t)n;
		return 1;
	}
	if (n < 0 && errno == EAGAIN) {
		in->pipe.writable = false;
	} else if (n < 0 && errno != EINTR) {
		in->consumed += (uint32_t)in->data.len;
		buf_reset(&in->data);
		loop_unwatch(rs->loop, &in->pipe);
	}
	return 0;
}

/* The character that ends input for who reads lines. After a begun line the first one only hands
 * that line over (termios(3), VEOF). 0: it waits for room. */
static int type_end(struct run_input *in)
{
	struct termios t;
	char end[2] = {4, 4};

	if (tcgetattr(in->pipe.fd, &t) == 0)
		end[0] = end[1] = (char)t.c_cc[VEOF];
	ssize_t n = write(in->pipe.fd, end, in->line_begun ? 2 : 1);
	if (n < 0 && errno == EAGAIN) {
		in->pipe.writable = false;
		return 0;
	}
	in->end_typed = true;
	return 1;
}

int run_stdin_step(struct runs *rs, struct run *r)
{
	struct run_input *in = &r->in;
	int progress = 0;

	while (in->pipe.fd >= 0 && in->pipe.writable && in->data.len > 0)
		progress |= write_some(rs, r);
	if (!in->eof && (in->consumed >= GRANT_MIN || (in->consumed > 0 && in->data.len == 0))) {
		if (r->client.present)
			send_grant(rs, r, in->consumed);
		in->consumed = 0;
	}
	if (!in->eof || in->data.len > 0 || in->pipe.fd < 0)
		return progress;
	if (!(r->flags & AGENT_TTY))
		loop_unwatch(rs->loop, &in->pipe);
	else if (r->flags & AGENT_STDIN_OPEN && in->pipe.writable && !in->end_typed)
		progress |= type_end(in);
	return progress;
}

/* How much may be read now: 0 when the window is used up. */
static size_t readable_now(const struct run *r, const struct run_output *o)
{
	size_t n = AGENT_DATA_MAX;

	if (r->client.present && o->window < n)
		n = o->window;
	if (r->state == RUN_DRAINING && o->left < n)
		n = o->left;
	return n;
}

void run_send_eof(struct runs *rs, struct run *r, size_t which)
{
	if (!r->client.present || r->out[which].eof_sent)
		return;
	r->out[which].eof_sent = true;
	mux_send(rs->mux, which == 0 ? AGENT_STDOUT_EOF : AGENT_STDERR_EOF, r->client.stream, NULL,
		0);
}

static void end_output(struct runs *rs, struct run *r, size_t which)
{
	r->out[which].ended = true;
	loop_unwatch(rs->loop, &r->out[which].pipe);
	run_send_eof(rs, r, which);
}

static void deliver(struct runs *rs, struct run *r, size_t which, const void *data, size_t len)
{
	struct run_output *o = &r->out[which];

	if (r->kind == RUN_PROGRAM)
		container_write_log(r->container, which == 0 ? LOG_STDOUT : LOG_STDERR, data, len);
	if (r->client.present) {
		mux_send(rs->mux, which == 0 ? AGENT_STDOUT : AGENT_STDERR, r->client.stream, data,
			len);
		o->window -= (uint32_t)len;
	}
	if (r->state == RUN_DRAINING)
		o->left -= (uint32_t)len;
}

/* Nothing is there now, or never again. A terminal says EIO while nobody has it open, and somebody
 * may open it again. */
static bool is_empty(const struct run *r, int errnum)
{
	if (r->state == RUN_DRAINING)
		return false;
	return errnum == EAGAIN || (errnum == EIO && r->flags & AGENT_TTY);
}

int run_output_step(struct runs *rs, struct run *r, size_t which)
{
	static unsigned char chunk[AGENT_DATA_MAX];
	struct run_output *o = &r->out[which];
	bool draining = r->state == RUN_DRAINING;

	if (o->ended || (o->pipe.fd < 0 && !draining))
		return 0;
	size_t max = readable_now(r, o);
	bool no_more = draining && (o->left == 0 || (r->forced && max == 0));
	if (!no_more &&
		(max == 0 || !o->pipe.readable || (r->client.present && !mux_has_room(rs->mux))))
		return 0;
	ssize_t n = no_more ? 0 : read(o->pipe.fd, chunk, max);
	if (n > 0) {
		deliver(rs, r, which, chunk, (size_t)n);
		return 1;
	}
	if (n < 0 && errno == EINTR)
		return 1;
	if (n < 0 && is_empty(r, errno)) {
		o->pipe.readable = false;
		return 0;
	}
	end_output(rs, r, which);
	return 1;
}

void run_streams_drain(struct run *r)
{
	for (size_t i = 0; i < 2; i++) {
		int n = 0;

		/* Counted now: another container may have been given the pipe and go on writing.
		 * What was written to a terminal may not have come through to its other side. */
		if (r->out[i].pipe.fd >= 0 && r->flags & AGENT_TTY)
			n = TERMINAL_DRAIN_MAX;
		else if (r->out[i].pipe.fd >= 0 && ioctl(r->out[i].pipe.fd, FIONREAD, &n) < 0)
			n = 0;
		r->out[i].left = (uint32_t)n;
		r->out[i].pipe.readable = true;
	}
}
