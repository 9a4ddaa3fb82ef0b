/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include "../base/clock.h"
#include "../base/log.h"
#include "boot.h"
#include "port.h"
#include "uevent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define PORT_WAIT_MS 10000
#define FRAMES_A_STEP 64

int agent_init(struct agent *a, int uevent_fd, struct err *e)
{
	sigset_t mask;
	int r;

	mux_init(&a->mux);
	resume_init(&a->resume);
	disk_init(&a->disk);
	if ((r = loop_init(&a->loop, e)) < 0 ||
		(r = loop_watch(&a->loop, &a->uevents, uevent_fd, WATCH_READ, e)) < 0)
		return r;
	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &mask, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	int fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return err_errno(e, errno, "signalfd");
	if ((r = loop_watch(&a->loop, &a->signals, fd, WATCH_READ, e)) < 0 ||
		(r = cgroup_boot(&a->cgroups, e)) < 0 ||
		(r = quiesce_init(&a->quiesce, &a->cgroups, &a->loop, e)) < 0)
		return r;
	return 0;
}

static void send_hello(struct agent *a)
{
	struct agent_hello hello = {.version = AGENT_PROTOCOL_VERSION};
	cleanup_buf struct buf b;
	struct utsname u;

	if (uname(&u) == 0)
		(void)snprintf(hello.kernel, sizeof(hello.kernel), "%s", u.release);
	buf_init(&b, 1024);
	agent_hello_encode(&b, &hello);
	mux_send_buf(&a->mux, AGENT_HELLO, 0, &b);
}

int agent_open_ports(struct agent *a, struct err *e)
{
	int64_t deadline = clock_mono_ms() + PORT_WAIT_MS;
	int fd, r;

	fd = port_open(AGENT_PORT_RESUME, a->uevents.fd, deadline, e);
	if (fd < 0)
		return fd;
	r = loop_watch(&a->loop, &a->resume.port, fd, WATCH_READ, e);
	if (r < 0)
		return r;
	fd = port_open(AGENT_PORT_MUX, a->uevents.fd, deadline, e);
	if (fd < 0)
		return fd;
	r = loop_watch(&a->loop, &a->mux.port, fd, WATCH_READ | WATCH_WRITE, e);
	if (r < 0)
		return r;
	send_hello(a);
	return 0;
}

static void reply(struct agent *a, uint32_t stream, int status, const char *text)
{
	struct agent_reply m = {.status = (uint32_t)(status < 0 ? -status : status)};

	(void)snprintf(m.text, sizeof(m.text), "%.*s", AGENT_TEXT_MAX - 1, text);
	mux_reply(&a->mux, AGENT_REPLY, stream, &m);
}

static void on_configure(struct agent *a, const struct frame *f)
{
	struct agent_configure m;
	struct cursor c;
	struct err e;

	cursor_init(&c, f->payload, f->len);
	if (agent_configure_decode(&c, &m) < 0)
		return reply(a, f->stream, -EPROTO, "malformed CONFIGURE");
	if (a->phase != AGENT_TEMPLATE)
		return reply(a, f->stream, -EALREADY, "already configured");
	int r = disk_mount(&a->disk, &e);
	if (r < 0)
		return reply(a, f->stream, r, e.what);
	(void)snprintf(a->hostname, sizeof(a->hostname), "%s", m.hostname);
	if (sethostname(a->hostname, strlen(a->hostname)) < 0)
		log_warn("hostname: %s", strerror(errno));
	a->trash.wanted = true;
	a->phase = AGENT_CONFIGURED;
	reply(a, f->stream, 0, "");
}

static void on_attach(struct agent *a, const struct frame *f)
{
	struct agent_attach m;
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	if (agent_attach_decode(&c, &m) < 0)
		return reply(a, f->stream, -EPROTO, "malformed ATTACH_IMAGE");
	int r = image_request(&a->images, f->stream, &m);
	if (r == -EAGAIN)
		reply(a, f->stream, r, "too many images are being attached");
	else if (r < 0)
		reply(a, f->stream, r, "not an image digest");
}

static void on_quiesce(struct agent *a, const struct frame *f)
{
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	uint32_t number = cursor_u32(&c);
	if (cursor_done(&c))
		quiesce_begin(&a->quiesce, number);
}

static void on_frame(struct agent *a, const struct frame *f)
{
	switch (f->type) {
	case AGENT_CONFIGURE:
		return on_configure(a, f);
	case AGENT_ATTACH_IMAGE:
		return on_attach(a, f);
	case AGENT_QUIESCE:
		return on_quiesce(a, f);
	case AGENT_PING:
		return reply(a, f->stream, 0, "");
	default:
		log_warn("a frame of unknown type %u was ignored", f->type);
	}
}

/* Frames wait in the port while the agent stands still or its output is held back. */
static int step_input(struct agent *a)
{
	struct frame f;
	int taken = 0;

	while (taken < FRAMES_A_STEP && quiesce_is_running(&a->quiesce) && mux_has_room(&a->mux)) {
		int r = mux_next(&a->mux, &f);
		if (r > 0) {
			on_frame(a, &f);
			taken++;
		} else if (r < 0) {
			log_warn("the mux lost its place: waiting for a new epoch");
		} else if (!mux_fill(&a->mux)) {
			break;
		}
	}
	return taken;
}

static void on_resume(struct agent *a, const struct agent_resume *m)
{
	bool new_epoch = m->epoch != a->mux.epoch;

	/* Before anything is thawed: no program may see the old clock or the old random state. */
	resume_set_clock(m->wall_ns, 0);
	resume_add_entropy(m->entropy);
	if (new_epoch) {
		mux_new_epoch(&a->mux, m->epoch, m->nonce);
		mux_send(&a->mux, AGENT_RESUMED, 0, NULL, 0);
		image_forget_requests(&a->images);
	}
	quiesce_resume(&a->quiesce, m->quiesce, new_epoch);
}

static int step_resume(struct agent *a)
{
	struct agent_resume m;
	int n = 0;

	while (resume_next(&a->resume, &m) > 0) {
		on_resume(a, &m);
		n++;
	}
	return n;
}

static void step_children(struct agent *a)
{
	struct signalfd_siginfo si;
	pid_t pid;
	int status;

	if (!a->signals.readable)
		return;
	while (read(a->signals.fd, &si, sizeof(si)) > 0)
		;
	a->signals.readable = false;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		(void)trash_child_reaped(&a->trash, pid);
}

static void on_image_done(void *ctx, uint32_t stream, const struct agent_reply *m)
{
	struct agent *a = ctx;

	mux_reply(&a->mux, AGENT_REPLY, stream, m);
}

static void step_images(struct agent *a)
{
	if (a->uevents.readable) {
		(void)uevent_drain(a->uevents.fd);
		a->uevents.readable = false;
	}
	image_step(&a->images, on_image_done, a);
}

static int earliest_ms(const struct agent *a)
{
	int64_t first = image_deadline_ms(&a->images);

	if (a->quiesce.state == QUIESCE_FREEZING && (first < 0 || a->quiesce.deadline_ms < first))
		first = a->quiesce.deadline_ms;
	return clock_left_ms(first);
}

void agent_serve(struct agent *a)
{
	for (;;) {
		int busy = step_resume(a);

		busy |= step_input(a);
		if (quiesce_is_running(&a->quiesce)) {
			step_images(a);
			trash_child_step(&a->trash, a->disk.trash_fd);
		}
		step_children(a);
		(void)mux_flush(&a->mux);
		busy |= quiesce_step(&a->quiesce, &a->mux);
		loop_wait(&a->loop, busy ? 0 : earliest_ms(a));
	}
}
