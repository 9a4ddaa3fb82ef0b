/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay's process. This is the way of every file operation on a mount, so a request costs as
 * few system calls as there can be: poll, read /dev/fuse, write the port; poll, read the port,
 * write /dev/fuse. Therefore poll() and not edge-triggered epoll, which needs a read that fails
 * to know that there is nothing more; and a descriptor that is not to be read is just left out.
 */
#include "relay.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/log.h"
#include "fs-calls.h"
#include "fuse-conn.h"
#include "mux.h"
#include "notifier.h"

#include <errno.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Requests of one mount that are taken before the others have their turn. */
#define FORGETS_WAIT_MS 10
#define REQUESTS_A_STEP 8

/* A request and the number of a slot. */
#define ROOM (FUSE_CONN_READ_SIZE + sizeof(uint32_t))

enum state { RUNNING, STANDING, STILL };

struct mounted {
	struct fuse_conn conn;
	int notify_fd;
	int calls_fd; /* of fs_calls_start() */
};

struct process {
	enum state state;
	uint32_t number; /* of the QUIESCE */
	int64_t deadline_ms;
	int control;
	bool control_readable;
	bool hung_up; /* the port has no other side: until the agent has news of one */
	size_t turn;
	struct mux mux;
	struct notifier notifier;
	struct fuse_slots slots;
	struct mounted mount[RELAY_MOUNTS_MAX];
	/* Nobody waits for a FORGET: it goes with the next request, or when it has waited this
	 * long. */
	bool urgent; /* something else waits to be sent */
	int64_t forgets_due_ms;
};

static void tell(struct process *p, enum relay_op op, uint32_t id, int status, const char *text)
{
	struct relay_message m = {.op = op, .id = id, .status = (uint32_t)status};

	(void)snprintf(m.text, sizeof(m.text), "%.*s", AGENT_TEXT_MAX - 1, text);
	if (send(p->control, &m, sizeof(m), MSG_NOSIGNAL) < 0)
		log_warn("tell the agent: %s", strerror(errno));
}

static struct mounted *find(struct process *p, uint32_t id)
{
	for (size_t i = 0; i < RELAY_MOUNTS_MAX; i++)
		if (p->mount[i].conn.id == id)
			return &p->mount[i];
	return NULL;
}

static int add(struct process *p, const struct relay_message *m, struct err *e)
{
	struct mounted *free_one = find(p, 0);
	char path[RELAY_PATH_SIZE];

	if (!free_one)
		return err_set(e, ERR_LIMIT, EMFILE, "there are %d mounts, which is the limit",
			RELAY_MOUNTS_MAX);
	relay_path(m->id, "fs", path);
	int r = fuse_conn_open(&free_one->conn, m->id, m->cow, path, &p->slots, e);
	if (r < 0)
		return r;
	free_one->notify_fd = notifier_add(&free_one->conn);
	free_one->calls_fd = fs_calls_start(m->id, e);
	if (free_one->calls_fd < 0)
		log_warn("mount %u: %s", m->id, e->what);
	return 0;
}

static void on_mount(struct process *p, const struct relay_message *m)
{
	struct err e;

	if (m->id == 0 || find(p, m->id))
		return;
	if (add(p, m, &e) < 0)
		tell(p, RELAY_MOUNTED, m->id, -err_code(&e), e.what);
}

static void on_unmount(struct process *p, uint32_t id)
{
	struct mounted *m = id ? find(p, id) : NULL;
	char path[RELAY_PATH_SIZE];

	if (m) {
		/* MNT_FORCE ends the connection, whoever still has the file system in use. */
		relay_path(id, "fs", path);
		if (umount2(path, MNT_FORCE) < 0 && umount2(path, MNT_DETACH) < 0)
			log_warn("unmount %s: %s", path, strerror(errno));
		fuse_conn_close(&m->conn);
		if (m->notify_fd >= 0)
			notifier_forget(&p->notifier, m->notify_fd);
		if (m->calls_fd >= 0)
			notifier_forget(&p->notifier, m->calls_fd);
		fs_calls_forget(id);
	}
	tell(p, RELAY_UNMOUNTED, id, 0, "");
}

static void on_epoch(struct process *p, const struct relay_message *m)
{
	mux_new_epoch(&p->mux, m->epoch, m->nonce);
	p->state = RUNNING;
	fuse_slots_new_epoch(&p->slots);
	p->urgent = true;
	if (p->slots.len > 0)
		mux_send(&p->mux, AGENT_FUSE_POOL, 0, p->slots.physical,
			p->slots.len * sizeof(p->slots.physical[0]));
	for (size_t i = 0; i < RELAY_MOUNTS_MAX; i++) {
		struct fuse_conn *c = &p->mount[i].conn;

		if (c->id != 0 && fuse_conn_fail(c))
			mux_send(&p->mux, AGENT_FUSE, c->id, c->init, c->init_len);
	}
}

static void on_control(struct process *p, const struct relay_message *m)
{
	switch (m->op) {
	case RELAY_MOUNT:
		return on_mount(p, m);
	case RELAY_UNMOUNT:
		return on_unmount(p, m->id);
	case RELAY_STAND:
		p->number = m->id;
		p->deadline_ms = m->deadline_ms;
		p->state = STANDING;
		return;
	case RELAY_RESUME:
		p->state = RUNNING;
		return;
	case RELAY_EPOCH:
		return on_epoch(p, m);
	default:
		return;
	}
}

static void step_control(struct process *p)
{
	struct relay_message m;

	while (p->control_readable) {
		ssize_t n = recv(p->control, &m, sizeof(m), 0);

		if (n == (ssize_t)sizeof(m)) {
			p->hung_up = false;
			on_control(p, &m);
		} else if (n == 0) {
			_exit(0);
		} else if (n < 0 && errno != EINTR) {
			p->control_readable = false;
		}
	}
}

static void on_notification(struct process *p, struct mounted *m, const struct frame *f)
{
	struct fuse_out_header h;

	memcpy(&h, f->payload, sizeof(h));
	int fd = h.error == FS_EVENT ? m->calls_fd : m->notify_fd;
	if (fd >= 0)
		notifier_send(&p->notifier, &m->conn, fd, f->payload, f->len);
}

/* To a mount that is gone: its slot is free now. */
static void on_late_answer(struct process *p, const struct frame *f)
{
	struct fuse_out_header h;

	if (f->len < sizeof(h) || f->type == AGENT_FUSE_PART)
		return;
	memcpy(&h, f->payload, sizeof(h));
	fuse_slots_answered(&p->slots, f->stream, h.unique, FS_SLOT_SIZE);
}

static enum fuse_conn_reply answer(struct fuse_conn *c, const struct frame *f)
{
	if (f->type == AGENT_FUSE)
		return fuse_conn_reply(c, f->payload, f->len);
	if (f->type == AGENT_FUSE_SLOT)
		return fuse_conn_reply_slot(c, f->payload, f->len);
	if (f->type == AGENT_FUSE_PART)
		fuse_conn_part(c, f->payload, f->len);
	return FUSE_REPLY_DONE;
}

static void on_ready(struct process *p, uint32_t id)
{
	char path[RELAY_PATH_SIZE];

	relay_path(id, "fs", path);
	fuse_conn_read_ahead(path);
	tell(p, RELAY_MOUNTED, id, 0, "");
}

static void on_frame(struct process *p, const struct frame *f)
{
	struct mounted *m = f->stream ? find(p, f->stream) : NULL;

	if (!m)
		return on_late_answer(p, f);
	switch (answer(&m->conn, f)) {
	case FUSE_REPLY_READY:
		fs_calls_ready(m->calls_fd);
		return on_ready(p, f->stream);
	case FUSE_REPLY_REFUSED:
		return tell(p, RELAY_MOUNTED, f->stream, EPROTO, "the mount's server refused it");
	case FUSE_REPLY_NOTIFICATION:
		return on_notification(p, m, f);
	case FUSE_REPLY_DONE:
	case FUSE_REPLY_DROPPED:
		return;
	}
}

/* The port is read on without asking while a frame is not whole. */
static void step_port(struct process *p)
{
	struct frame f;

	while (p->state != STILL) {
		int r = mux_next(&p->mux, &f);

		if (r > 0) {
			on_frame(p, &f);
			continue;
		}
		if (r < 0)
			log_warn("kosa8.fs lost its place: waiting for a new epoch");
		if (!mux_fill(&p->mux))
			return;
		if (!mux_is_amid_frame(&p->mux))
			p->mux.port.readable = false;
	}
}

static bool may_read(const struct process *p, const struct fuse_conn *c)
{
	return p->state == RUNNING && fuse_conn_may_read(c) && mux_has_room(&p->mux);
}

/* False: there was none. */
static bool pass_on(struct process *p, struct fuse_conn *c, bool parked)
{
	unsigned char *at = mux_begin(&p->mux, ROOM);
	int slot = FUSE_NO_SLOT;
	enum agent_type type = AGENT_FUSE;
	size_t out = c->out_len;
	bool first = mux_flushed(&p->mux);

	if (!at)
		return false;
	ssize_t n = parked ? fuse_conn_unpark(c, at, &slot) : fuse_conn_next(c, at, &slot);
	if (n <= 0) {
		mux_cancel(&p->mux, ROOM);
		return false;
	}
	if (slot != FUSE_NO_SLOT) {
		uint32_t number = (uint32_t)slot;
		memcpy(at + n, &number, sizeof(number));
		n += (ssize_t)sizeof(number);
		type = AGENT_FUSE_SLOT;
	}
	mux_end(&p->mux, ROOM, type, c->id, (size_t)n);
	if (parked || c->out_len > out)
		p->urgent = true;
	else if (first)
		p->forgets_due_ms = clock_mono_ms() + FORGETS_WAIT_MS;
	return true;
}

static void step_conn(struct process *p, struct fuse_conn *c)
{
	while (p->state != STILL && c->parked_len > 0 && mux_has_room(&p->mux))
		if (!pass_on(p, c, true))
			break;
	for (int i = 0; i < REQUESTS_A_STEP && c->readable && may_read(p, c); i++) {
		if (!pass_on(p, c, false))
			return;
		/* One that waits alone, which is the usual case, is not looked for twice. */
		if (c->out_len == 1)
			c->readable = false;
	}
}

/* Only FORGETs are to be sent, and they can wait. */
static bool may_wait(const struct process *p)
{
	return p->state == RUNNING && !p->urgent && !mux_flushed(&p->mux) &&
	       mux_has_room(&p->mux) && clock_left_ms(p->forgets_due_ms) > 0;
}

static void flush(struct process *p)
{
	if (p->state == STILL || may_wait(p))
		return;
	(void)mux_flush(&p->mux);
	p->urgent &= !mux_flushed(&p->mux);
}

static int timeout_ms(const struct process *p)
{
	if (p->state == STANDING)
		return clock_left_ms(p->deadline_ms);
	return may_wait(p) ? clock_left_ms(p->forgets_due_ms) : -1;
}

static void step_quiesce(struct process *p)
{
	bool late = p->state == STANDING && clock_left_ms(p->deadline_ms) == 0;

	if (p->state != STANDING)
		return;
	for (size_t i = 0; !late && i < RELAY_MOUNTS_MAX; i++)
		if (p->mount[i].conn.id != 0 && p->mount[i].conn.out_len > 0)
			return;
	if (!late && !mux_flushed(&p->mux))
		return;
	fuse_slots_clean(&p->slots);
	p->state = STILL;
	tell(p, RELAY_STILL, p->number, 0, "");
}

static void wait_for_news(struct process *p)
{
	struct pollfd fds[2 + RELAY_MOUNTS_MAX];
	struct fuse_conn *conns[RELAY_MOUNTS_MAX];
	nfds_t n = 2;
	bool more = false;

	fds[0] = (struct pollfd){.fd = p->control, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = p->state == STILL || p->hung_up ? -1 : p->mux.port.fd,
		.events = p->mux.lost ? 0 : POLLIN};
	if (!mux_flushed(&p->mux) && !may_wait(p))
		fds[1].events |= POLLOUT;
	for (size_t i = 0; i < RELAY_MOUNTS_MAX; i++) {
		struct fuse_conn *c = &p->mount[i].conn;

		if (c->id == 0 || !may_read(p, c))
			continue;
		more |= c->readable;
		conns[n - 2] = c;
		fds[n++] = (struct pollfd){.fd = c->fd, .events = POLLIN};
	}
	if (poll(fds, n, more ? 0 : timeout_ms(p)) <= 0)
		return;
	p->control_readable = fds[0].revents != 0;
	p->hung_up |= (fds[1].revents & POLLHUP) != 0;
	p->mux.port.readable |= (fds[1].revents & ~POLLOUT) != 0;
	p->mux.port.writable |= (fds[1].revents & POLLOUT) != 0;
	for (nfds_t i = 2; i < n; i++)
		conns[i - 2]->readable = fds[i].revents != 0;
}

_Noreturn void relay_main(int control, int port)
{
	struct process *p = calloc(1, sizeof(*p));
	struct err e;

	(void)prctl(PR_SET_NAME, "relay");
	(void)prctl(PR_SET_DUMPABLE, 0);
	/* When memory is short, the kernel must not wait in it for its own requests. */
	(void)prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
	if (!p || notifier_start(&p->notifier, &e) < 0)
		_exit(1);
	mux_init(&p->mux);
	fuse_slots_open(&p->slots);
	p->control = control;
	p->mux.port = (struct watch){.fd = port, .readable = true, .writable = true};
	for (size_t i = 0; i < RELAY_MOUNTS_MAX; i++)
		p->mount[i] = (struct mounted){.conn.fd = -1, .notify_fd = -1, .calls_fd = -1};
	for (;;) {
		step_control(p);
		step_port(p);
		for (size_t i = 0; i < RELAY_MOUNTS_MAX; i++)
			step_conn(p, &p->mount[(p->turn + i) % RELAY_MOUNTS_MAX].conn);
		p->turn = (p->turn + 1) % RELAY_MOUNTS_MAX;
		flush(p);
		step_quiesce(p);
		wait_for_news(p);
	}
}
