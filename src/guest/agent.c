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
	a->containers =
		(struct containers){.cgroups = &a->cgroups, .disk = &a->disk, .keeper = &a->keeper};
	a->sessions = (struct sessions){.mux = &a->mux, .containers = &a->containers};
	a->runs = (struct runs){.loop = &a->loop,
		.mux = &a->mux,
		.cgroups = &a->cgroups,
		.disk = &a->disk,
		.keeper = &a->keeper,
		.containers = &a->containers,
		.mounts = &a->mounts};
	runs_init(&a->runs);
	relay_init(&a->relay);
	net_init(&a->net, &a->loop);
	a->mounts = (struct fs_mounts){.relay = &a->relay,
		.mux = &a->mux,
		.disk = &a->disk,
		.keeper = &a->keeper,
		.containers = runs_running,
		.containers_ctx = &a->runs};
	keeper_init(&a->keeper, &a->loop);
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
		(r = quiesce_init(&a->quiesce, &a->cgroups, &a->relay, &a->loop, e)) < 0 ||
		(r = fs_mounts_init(&a->mounts, e)) < 0)
		return r;
	return 0;
}

static void send_hello(struct agent *a)
{
	struct agent_hello hello = {.version = AGENT_PROTOCOL_VERSION};
	cleanup_buf struct buf b = {0};
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
	fd = port_open(AGENT_PORT_NET, a->uevents.fd, deadline, e);
	if (fd < 0)
		return fd;
	r = net_open(&a->net, fd, e);
	if (r < 0)
		return r;
	fd = port_open(AGENT_PORT_FS, a->uevents.fd, deadline, e);
	if (fd < 0)
		return fd;
	r = relay_start(&a->relay, &a->loop, fd, e);
	if (r < 0)
		return r;
	send_hello(a);
	return 0;
}

/* Frames wait in the port while the agent stands still or its output is held back. */
static int step_input(struct agent *a)
{
	struct frame f;
	int taken = 0;

	while (taken < FRAMES_A_STEP && quiesce_is_running(&a->quiesce) && mux_has_room(&a->mux)) {
		int r = mux_next(&a->mux, &f);
		if (r > 0) {
			agent_frame(a, &f);
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
		net_new_epoch(&a->net, m->epoch, m->nonce);
		relay_new_epoch(&a->relay, m->epoch, m->nonce);
		fs_mounts_new_epoch(&a->mounts);
		image_forget_requests(&a->images);
		runs_forget_clients(&a->runs);
		sessions_forget(&a->sessions);
		containers_forget_requests(&a->containers);
	}
	if (quiesce_resume(&a->quiesce, m->quiesce, new_epoch) && !new_epoch)
		relay_resume(&a->relay);
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
		if (relay_reaped(&a->relay, &a->loop, pid))
			fs_mounts_relay_lost(&a->mounts);
		else if (!keeper_reaped(&a->keeper, pid) &&
			 !fs_mounts_reaped(&a->mounts, pid, status))
			(void)runs_reaped(&a->runs, pid, status);
}

static void on_image_done(void *ctx, uint32_t stream, const struct agent_reply *m)
{
	struct agent *a = ctx;

	mux_reply(&a->mux, AGENT_REPLY, stream, m);
}

static void step_images(struct agent *a)
{
	if (a->uevents.readable) {
		a->uevents.readable = false;
		a->images.news |= uevent_drain(a->uevents.fd);
	}
	image_step(&a->images, on_image_done, a);
}

static void step_keeper(struct agent *a)
{
	struct err e;

	if (a->keeper.pid == 0 && a->disk.fd >= 0 && a->stop.state == STOP_NONE &&
		keeper_start(&a->keeper, &a->disk, &e) < 0)
		log_warn("%s", e.what);
	keeper_step(&a->keeper);
}

static void step_relay(struct agent *a)
{
	struct relay_message m;

	while (relay_next(&a->relay, &m) > 0) {
		if (m.op == RELAY_STILL)
			quiesce_relay_still(&a->quiesce, m.id);
		else
			fs_mounts_relay(&a->mounts, &m);
	}
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

static int timeout_ms(const struct agent *a)
{
	if (a->quiesce.state == QUIESCE_STILL)
		return -1;
	if (a->quiesce.state == QUIESCE_FREEZING || a->quiesce.state == QUIESCE_RELAY)
		return clock_left_ms(a->quiesce.deadline_ms);
	int64_t first = earlier(image_deadline_ms(&a->images), runs_deadline_ms(&a->runs));
	first = earlier(
		first, earlier(net_deadline_ms(&a->net), fs_mounts_deadline_ms(&a->mounts)));
	return clock_left_ms(earlier(first, stop_deadline_ms(&a->stop)));
}

/* 1: there is room again, so what waited for it (input, pipes) can go on without an event. */
static int flush(struct agent *a)
{
	bool had_room = mux_has_room(&a->mux);

	(void)mux_flush(&a->mux);
	(void)mux_flush(&a->net.mux);
	return !had_room && mux_has_room(&a->mux);
}

/* All that is done between two quiescences. */
static int step_work(struct agent *a)
{
	int busy = 0;

	step_images(a);
	step_children(a);
	busy |= runs_step(&a->runs);
	busy |= sessions_step(&a->sessions);
	busy |= fs_mounts_step(&a->mounts);
	busy |= flush(a);
	runs_clean(&a->runs);
	step_keeper(a);
	busy |= dns_step(&a->dns);
	busy |= net_step(&a->net);
	stop_step(&a->stop, &a->runs, &a->sessions, &a->mounts, &a->disk, &a->keeper, &a->mux);
	return busy;
}

void agent_serve(struct agent *a)
{
	for (;;) {
		int busy = step_resume(a);

		busy |= step_input(a);
		step_relay(a);
		if (quiesce_is_running(&a->quiesce))
			busy |= step_work(a);
		busy |= flush(a);
		busy |= quiesce_step(&a->quiesce, &a->mux, &a->net.mux);
		loop_wait(&a->loop, busy ? 0 : timeout_ms(a));
	}
}
