/* SPDX-License-Identifier: Apache-2.0 */
/* The three streams of a run: pipes on one side, windows and frames on the other. */
#include "run.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* A grant is worth a frame when so much was written, or when all was. */
#define GRANT_MIN (32u * 1024)

static void grant(struct runs *rs, struct run *r, uint32_t bytes)
{
	struct agent_window m = {.which = AGENT_WHICH_STDIN, .bytes = bytes};
	cleanup_buf struct buf b = {0};

	buf_init(&b, 64);
	agent_window_encode(&b, &m);
	mux_send_buf(rs->mux, AGENT_WINDOW, r->stream, &b);
	r->in.granted += bytes;
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

int run_streams_open(
	struct runs *rs, struct run *r, bool want_stdin, int ret_child[static 3], struct err *e)
{
	int n;

	buf_init(&r->in.data, RUN_STDIN_WINDOW);
	if (want_stdin) {
		n = open_input(rs, r, &ret_child[0], e);
		if (n < 0)
			return n;
		grant(rs, r, RUN_STDIN_WINDOW);
	} else {
		ret_child[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (ret_child[0] < 0)
			return err_errno(e, errno, "/dev/null");
		r->in.eof = true;
	}
	if ((n = open_output(rs, &r->out[0], &ret_child[1], e)) < 0)
		return n;
	return open_output(rs, &r->out[1], &ret_child[2], e);
}

void run_streams_close(struct runs *rs, struct run *r)
{
	loop_unwatch(rs->loop, &r->in.pipe);
	loop_unwatch(rs->loop, &r->out[0].pipe);
	loop_unwatch(rs->loop, &r->out[1].pipe);
	buf_release(&r->in.data);
}

int run_stdin_data(struct runs *rs, struct run *r, const struct frame *f)
{
	if (r->in.eof)
		return 0;
	if (f->len > r->in.granted)
		return -EPROTO;
	r->in.granted -= (uint32_t)f->len;
	if (r->in.pipe.fd >= 0) {
		buf_put(&r->in.data, f->payload, f->len);
		return 0;
	}
	/* The program closed its stdin: what comes is dropped, and must not stop the sender. */
	grant(rs, r, (uint32_t)f->len);
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

int run_stdin_step(struct runs *rs, struct run *r)
{
	struct run_input *in = &r->in;
	int progress = 0;

	while (in->pipe.fd >= 0 && in->pipe.writable && in->data.len > 0) {
		ssize_t n = write(in->pipe.fd, in->data.data, in->data.len);

		if (n > 0) {
			buf_consume(&in->data, (size_t)n);
			in->consumed += (uint32_t)n;
			progress = 1;
		} else if (n < 0 && errno == EAGAIN) {
			in->pipe.writable = false;
		} else if (n < 0 && errno != EINTR) {
			in->consumed += (uint32_t)in->data.len;
			buf_reset(&in->data);
			loop_unwatch(rs->loop, &in->pipe);
		}
	}
	if (!in->eof && (in->consumed >= GRANT_MIN || (in->consumed > 0 && in->data.len == 0))) {
		grant(rs, r, in->consumed);
		in->consumed = 0;
	}
	if (in->eof && in->data.len == 0)
		loop_unwatch(rs->loop, &in->pipe);
	return progress;
}

/* How much may be read now: 0 when the window is used up. */
static size_t readable_now(const struct run *r, const struct run_output *o)
{
	size_t n = AGENT_DATA_MAX;

	if (!r->orphan && o->window < n)
		n = o->window;
	if (r->state == RUN_DRAINING && o->left < n)
		n = o->left;
	return n;
}

static void end_output(struct runs *rs, struct run *r, size_t which)
{
	r->out[which].ended = true;
	loop_unwatch(rs->loop, &r->out[which].pipe);
	if (!r->orphan)
		mux_send(rs->mux, which == 0 ? AGENT_STDOUT_EOF : AGENT_STDERR_EOF, r->stream, NULL,
			0);
}

int run_output_step(struct runs *rs, struct run *r, size_t which)
{
	static unsigned char chunk[AGENT_DATA_MAX];
	struct run_output *o = &r->out[which];
	bool draining = r->state == RUN_DRAINING;

	if (o->ended || (r->state != RUN_RUNNING && !draining))
		return 0;
	size_t max = readable_now(r, o);
	bool no_more = draining && (o->left == 0 || (r->forced && max == 0));
	if (!no_more && (max == 0 || !o->pipe.readable || (!r->orphan && !mux_has_room(rs->mux))))
		return 0;
	ssize_t n = no_more ? 0 : read(o->pipe.fd, chunk, max);
	if (n > 0) {
		if (!r->orphan) {
			mux_send(rs->mux, which == 0 ? AGENT_STDOUT : AGENT_STDERR, r->stream,
				chunk, (size_t)n);
			o->window -= (uint32_t)n;
		}
		if (draining)
			o->left -= (uint32_t)n;
		return 1;
	}
	if (n < 0 && errno == EINTR)
		return 1;
	if (n < 0 && errno == EAGAIN && !draining) {
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

		/* Counted now: another container may have been given the pipe and go on writing. */
		if (r->out[i].pipe.fd >= 0 && ioctl(r->out[i].pipe.fd, FIONREAD, &n) < 0)
			n = 0;
		r->out[i].left = (uint32_t)n;
		r->out[i].pipe.readable = true;
	}
}
