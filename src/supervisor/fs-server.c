/* SPDX-License-Identifier: Apache-2.0 */
#include "fs-server.h"

#include "fs-pool.h"
#include "fuse-message.h"
#include "queue.h"

#include "../base/cursor.h"
#include "../base/fd.h"
#include "../base/frame.h"
#include "../base/sock.h"
#include "../base/spawn.h"
#include "../base/text.h"
#include "../proto/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* All that may be out, and 64,000 of the requests that nobody answers (FORGET). */
#define OUT_MAX (FS_REQUESTS_MAX * (FS_DATA_MAX + 8192) + 4 * 1024 * 1024)
#define MEMORY_SIZE (FS_SLOTS * FS_SLOT_SIZE)
#define READ_CHUNK (256u * 1024)

struct waiting {
	uint64_t unique;
	uint32_t slot; /* FS_SERVER_NO_SLOT: none */
};

struct fs_server {
	enum fs_server_state state;
	uv_poll_t poll, exit_poll;
	unsigned handles; /* that libuv still knows */
	int fd, pidfd;
	int memory_fd;		     /* -1 when the process has it */
	const unsigned char *memory; /* FS_SLOTS slots; NULL: none */
	pid_t pid;		     /* -1: waited for */
	bool reading;
	bool freed;
	unsigned depth; /* callbacks of this object that are on the stack */
	struct buf in;
	struct queue out;
	struct queue after; /* what follows a FS_SAVE that is not sent yet */
	int save_fd;	    /* to be sent when out is empty; -1: none */
	bool saving;
	struct waiting waiting[FS_REQUESTS_MAX];
	size_t waiting_len;
	struct fs_server_events events;
	void *ctx;
	void (*gone)(void *ctx);
	void *gone_ctx;
};

static void on_closed(uv_handle_t *handle)
{
	struct fs_server *f = handle->data;

	if (--f->handles > 0)
		return;
	void (*gone)(void *) = f->gone;
	void *gone_ctx = f->gone_ctx;
	(void)fd_close(f->fd);
	(void)fd_close(f->pidfd);
	(void)fd_close(f->save_fd);
	(void)fd_close(f->memory_fd);
	if (f->memory)
		(void)munmap((void *)f->memory, MEMORY_SIZE);
	buf_release(&f->in);
	queue_release(&f->out);
	queue_release(&f->after);
	free(f);
	if (gone)
		gone(gone_ctx);
}

/* Again when the process has ended: only then libuv may forget it. */
static void destroy(struct fs_server *f)
{
	if (f->pid > 0)
		(void)kill(f->pid, SIGKILL);
	if (!uv_is_closing((uv_handle_t *)&f->poll))
		uv_close((uv_handle_t *)&f->poll, on_closed);
	if (f->pid < 0 && !uv_is_closing((uv_handle_t *)&f->exit_poll))
		uv_close((uv_handle_t *)&f->exit_poll, on_closed);
}

void fs_server_free(struct fs_server *f)
{
	if (!f || f->freed)
		return;
	f->freed = true;
	if (f->depth == 0)
		destroy(f);
}

void fs_server_when_gone(struct fs_server *f, void (*gone)(void *ctx), void *ctx)
{
	f->gone = gone;
	f->gone_ctx = ctx;
}

static void enter(struct fs_server *f)
{
	f->depth++;
}

static void leave(struct fs_server *f)
{
	if (--f->depth == 0 && f->freed)
		destroy(f);
}

static void fail(struct fs_server *f, const struct err *why)
{
	unsigned char answer[FUSE_ERROR_SIZE];

	if (f->freed || f->state == FS_SERVER_FAILED)
		return;
	enter(f);
	f->state = FS_SERVER_FAILED;
	(void)uv_poll_stop(&f->poll);
	if (f->pid > 0)
		(void)kill(f->pid, SIGKILL);
	for (size_t i = 0; i < f->waiting_len && !f->freed; i++) {
		fuse_error_encode(f->waiting[i].unique, EIO, answer);
		f->events.reply(f->ctx, answer, sizeof(answer));
	}
	f->waiting_len = 0;
	queue_release(&f->out);
	queue_release(&f->after);
	if (!f->freed)
		f->events.failed(f->ctx, why);
	leave(f);
}

static void fail_text(struct fs_server *f, enum err_kind kind, const char *text)
{
	struct err why;

	(void)err_set(&why, kind, 0, "%s", text);
	fail(f, &why);
}

/* ---- out ---- */

/* FS_SAVE carries its descriptor, so what was queued before it goes first. */
static int send_save(struct fs_server *f)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, FRAME_HEADER_SIZE);
	frame_put(&b, FS_SAVE, 0, 0, NULL, 0);
	if (buf_failed(&b))
		return -ENOMEM;
	ssize_t n = fd_send_fds(f->fd, b.data, b.len, &f->save_fd, 1);
	if (n < 0)
		return (int)n;
	f->save_fd = fd_close(f->save_fd);
	int r = queue_bytes(&f->out, b.data + n, b.len - (size_t)n);
	if (r == 0)
		r = queue_bytes(&f->out, f->after.bytes.data, f->after.bytes.len);
	queue_release(&f->after);
	return r;
}

static void on_poll(uv_poll_t *handle, int status, int events);

static void watch(struct fs_server *f)
{
	int events = (f->reading ? UV_READABLE : 0) | UV_DISCONNECT |
		     (queue_left(&f->out) > 0 || f->save_fd >= 0 ? UV_WRITABLE : 0);

	if (!f->freed && f->state != FS_SERVER_FAILED)
		(void)uv_poll_start(&f->poll, events, on_poll);
}

static void flush(struct fs_server *f)
{
	struct err why;
	int r = queue_write(&f->out, f->fd);

	if (r == 0 && f->save_fd >= 0 && queue_left(&f->out) == 0) {
		r = send_save(f);
		if (r == 0)
			r = queue_write(&f->out, f->fd);
		else if (r == -EAGAIN)
			r = 0;
	}
	if (r == 0) {
		watch(f);
		return;
	}
	(void)err_errno(&why, -r, "the server of the mount cannot be reached");
	fail(f, &why);
}

static void answer_error(struct fs_server *f, uint64_t unique, int errnum)
{
	unsigned char answer[FUSE_ERROR_SIZE];

	fuse_error_encode(unique, errnum, answer);
	f->events.reply(f->ctx, answer, sizeof(answer));
}

static bool is_waiting(const struct fs_server *f, uint64_t unique, size_t *ret)
{
	for (size_t i = 0; i < f->waiting_len; i++)
		if (f->waiting[i].unique == unique) {
			*ret = i;
			return true;
		}
	return false;
}

static bool slot_is_free(const struct fs_server *f, uint32_t slot)
{
	for (size_t i = 0; i < f->waiting_len; i++)
		if (f->waiting[i].slot == slot)
			return false;
	return true;
}

/* Why the guest may not ask this, or NULL. */
static const char *breach(const struct fs_server *f, uint64_t unique, bool answered, uint32_t slot)
{
	size_t at;

	if (slot != FS_SERVER_NO_SLOT && (!answered || slot >= FS_SLOTS || !slot_is_free(f, slot)))
		return "the guest wants a file request answered in a slot that is not free";
	if (answered && f->waiting_len == FS_REQUESTS_MAX)
		return "the guest sent more file requests at once than it may";
	if (answered && is_waiting(f, unique, &at))
		return "the guest sent a file request twice";
	return NULL;
}

void fs_server_abandon(struct fs_server *f)
{
	while (!f->freed && f->waiting_len > 0)
		answer_error(f, f->waiting[--f->waiting_len].unique, ENOTCONN);
}

void fs_server_request(struct fs_server *f, const void *data, size_t len, uint32_t slot)
{
	struct queue *q = f->save_fd >= 0 ? &f->after : &f->out;
	uint64_t unique;
	bool answered;

	if (f->freed)
		return;
	if (fuse_request_parse(data, len, &unique, &answered) < 0) {
		fail_text(f, ERR_PROTOCOL, "the guest sent a message that is no file request");
		return;
	}
	if (f->state == FS_SERVER_FAILED) {
		if (answered)
			answer_error(f, unique, ENOTCONN);
		return;
	}
	const char *why = breach(f, unique, answered, slot);
	if (why) {
		fail_text(f, ERR_PROTOCOL, why);
		return;
	}
	if (queue_frame(q, FS_REQUEST, slot == FS_SERVER_NO_SLOT ? 0 : slot + 1, 0, data, len) <
		0) {
		fail_text(f, ERR_LIMIT, "too many file requests wait for the server of the mount");
		return;
	}
	if (answered)
		f->waiting[f->waiting_len++] = (struct waiting){unique, slot};
	flush(f);
}

int fs_server_save(struct fs_server *f, int fd)
{
	if (f->freed || f->state != FS_SERVER_READY)
		return -ENOTCONN;
	if (f->saving)
		return -EBUSY;
	f->save_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (f->save_fd < 0)
		return -errno;
	f->saving = true;
	flush(f);
	return 0;
}

void fs_server_read(struct fs_server *f, bool on)
{
	if (f->reading == on)
		return;
	f->reading = on;
	watch(f);
}

/* ---- in ---- */

static void handle_reply(struct fs_server *f, const struct frame *frame)
{
	uint64_t unique;
	size_t at;

	if (fuse_reply_parse(frame->payload, frame->len, &unique) < 0) {
		fail_text(f, ERR_PROTOCOL, "the server of the mount sent what is no answer");
		return;
	}
	if (unique != 0) {
		if (!is_waiting(f, unique, &at)) {
			fail_text(f, ERR_PROTOCOL,
				"the server of the mount answered what nobody asked");
			return;
		}
		f->waiting[at] = f->waiting[--f->waiting_len];
	}
	f->events.reply(f->ctx, frame->payload, frame->len);
}

/* What is in the slot may change while it is read: it is the server's word all the same. */
static void handle_reply_slot(struct fs_server *f, const struct frame *frame)
{
	uint64_t unique;
	size_t at, data_len;

	if (fuse_slot_reply_parse(frame->payload, frame->len, &unique, &data_len) < 0 ||
		!is_waiting(f, unique, &at) || f->waiting[at].slot == FS_SERVER_NO_SLOT) {
		fail_text(f, ERR_PROTOCOL, "the server of the mount sent what is no answer");
		return;
	}
	struct fs_answer a = {.slot = f->waiting[at].slot,
		.unique = unique,
		.header = frame->payload,
		.data_len = data_len};
	a.data = f->memory + (size_t)a.slot * FS_SLOT_SIZE;
	f->waiting[at] = f->waiting[--f->waiting_len];
	f->events.reply_slot(f->ctx, &a);
}

static void handle_saved(struct fs_server *f, const struct frame *frame)
{
	struct cursor c;

	cursor_init(&c, frame->payload, frame->len);
	uint32_t errnum = cursor_u32(&c);
	if (!f->saving || f->save_fd >= 0 || !cursor_done(&c)) {
		fail_text(f, ERR_PROTOCOL, "the server of the mount saved what nobody asked for");
		return;
	}
	f->saving = false;
	f->events.saved(f->ctx, (int)(errnum & 0xfff));
}

static void handle_failed(struct fs_server *f, const struct frame *frame)
{
	char text[200], safe[220];
	size_t len = frame->len < sizeof(text) - 1 ? frame->len : sizeof(text) - 1;

	memcpy(text, frame->payload, len);
	text[len] = '\0';
	text_escape(text, safe, sizeof(safe));
	fail_text(f, ERR_IO, *safe ? safe : "the server of the mount ended");
}

static void handle_frame(struct fs_server *f, const struct frame *frame)
{
	if (frame->type == FS_FAILED) {
		handle_failed(f, frame);
	} else if (frame->type == FS_READY && f->state == FS_SERVER_STARTING) {
		f->state = FS_SERVER_READY;
		f->events.ready(f->ctx);
	} else if (frame->type == FS_REPLY && f->state == FS_SERVER_READY) {
		handle_reply(f, frame);
	} else if (frame->type == FS_REPLY_SLOT && f->state == FS_SERVER_READY) {
		handle_reply_slot(f, frame);
	} else if (frame->type == FS_SAVED && f->state == FS_SERVER_READY) {
		handle_saved(f, frame);
	} else {
		fail_text(
			f, ERR_PROTOCOL, "the server of the mount sent what does not belong here");
	}
}

static void parse_input(struct fs_server *f)
{
	struct frame frame;
	size_t at = 0;
	int n = 0;

	while (!f->freed && f->state != FS_SERVER_FAILED &&
		(n = frame_parse(f->in.data + at, f->in.len - at, &frame)) > 0) {
		at += (size_t)n;
		handle_frame(f, &frame);
	}
	if (n < 0)
		fail_text(f, ERR_PROTOCOL, "the server of the mount sent bytes that are no frame");
	buf_consume(&f->in, at);
	if (f->in.len == 0)
		buf_release(&f->in);
}

/* 1: more may follow, 0: nothing now, <0: the end. */
static int read_input(struct fs_server *f)
{
	size_t before = f->in.len;
	void *at = buf_extend(&f->in, READ_CHUNK);

	if (!at)
		return -ENOMEM;
	ssize_t n = recv(f->fd, at, READ_CHUNK, MSG_DONTWAIT);
	int saved = errno;
	f->in.len = before + (n > 0 ? (size_t)n : 0);
	if (n < 0)
		return saved == EAGAIN || saved == EINTR ? 0 : -saved;
	if (n == 0)
		return -EPIPE;
	parse_input(f);
	return 1;
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
	struct fs_server *f = handle->data;
	int r = status;

	enter(f);
	if (r == 0 && (events & (UV_READABLE | UV_DISCONNECT)))
		r = read_input(f);
	if (r >= 0 && !f->freed && f->state != FS_SERVER_FAILED)
		flush(f);
	if (r < 0)
		fail_text(f, ERR_IO, "the server of the mount ended");
	leave(f);
}

static void on_exit_poll(uv_poll_t *handle, int status, int events)
{
	struct fs_server *f = handle->data;

	(void)status;
	(void)events;
	enter(f);
	(void)uv_poll_stop(handle);
	(void)spawn_wait(f->pid);
	f->pid = -1;
	/* What it said last is worth more than that it ended. */
	while (!f->freed && f->state != FS_SERVER_FAILED && read_input(f) > 0)
		;
	fail_text(f, ERR_IO, "the server of the mount ended");
	leave(f);
}

/* ---- start ---- */

/* Sealed: were it cut, reading it here would end this process. */
static int make_memory(struct fs_server *f)
{
	f->memory_fd = memfd_create("kosa8-fs", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (f->memory_fd < 0 || ftruncate(f->memory_fd, MEMORY_SIZE) < 0 ||
		fcntl(f->memory_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	void *at = mmap(NULL, MEMORY_SIZE, PROT_READ, MAP_SHARED, f->memory_fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	f->memory = at;
	return 0;
}

static int spawn(const struct fs_server_start *s, int socket, struct fs_server *f, struct err *e)
{
	char program[4096], read_only[] = "--read-only", restore[] = "--restore";
	char memory[] = "--memory", *argv[5] = {program};
	size_t n = 1;

	(void)snprintf(program, sizeof(program), "%s", s->program);
	if (s->read_only)
		argv[n++] = read_only;
	if (s->table_fd >= 0)
		argv[n++] = restore;
	argv[n++] = memory;
	struct spawn sp = {.argv = argv,
		.fds = {-1, -1, STDERR_FILENO, socket, s->root_fd, s->table_fd, f->memory_fd},
		.fds_len = 7,
		.die_with_parent = true};
	return spawn_start(&sp, &f->pid, &f->pidfd, e);
}

static int watch_both(uv_loop_t *loop, struct fs_server *f)
{
	int r = uv_poll_init(loop, &f->poll, f->fd);

	if (r < 0)
		return r;
	f->handles++;
	if ((r = uv_poll_init(loop, &f->exit_poll, f->pidfd)) < 0)
		return r;
	f->handles++;
	f->poll.data = f->exit_poll.data = f;
	if ((r = uv_poll_start(&f->exit_poll, UV_READABLE, on_exit_poll)) < 0)
		return r;
	/* A process that cannot die (a dead file server) must not keep this one. */
	uv_unref((uv_handle_t *)&f->exit_poll);
	watch(f);
	return 0;
}

int fs_server_start(uv_loop_t *loop, const struct fs_server_start *start,
	const struct fs_server_events *events, void *ctx, struct fs_server **ret, struct err *e)
{
	int pair[2] = {-1, -1};
	struct fs_server *f = calloc(1, sizeof(*f));

	if (!f)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	*f = (struct fs_server){.fd = -1,
		.pidfd = -1,
		.pid = -1,
		.save_fd = -1,
		.memory_fd = -1,
		.reading = true,
		.events = *events,
		.ctx = ctx};
	buf_init(&f->in, READ_CHUNK + FRAME_HEADER_SIZE + FRAME_PAYLOAD_MAX);
	queue_init(&f->out, OUT_MAX);
	queue_init(&f->after, OUT_MAX);
	int r = sock_pair(pair);
	f->fd = pair[0];
	if (r == 0)
		r = make_memory(f);
	if (r == 0)
		r = fd_set_nonblock(f->fd, true);
	r = r < 0 ? err_errno(e, -r, "cannot start the server of a mount")
		  : spawn(start, pair[1], f, e);
	(void)fd_close(pair[1]);
	f->memory_fd = fd_close(f->memory_fd);
	if (r == 0 && (r = watch_both(loop, f)) < 0) {
		(void)err_errno(e, -r, "cannot watch the server of a mount");
		(void)kill(f->pid, SIGKILL);
		(void)spawn_wait(f->pid);
	}
	if (r < 0) {
		(void)fd_close(f->fd);
		(void)fd_close(f->pidfd);
		/* A handle that libuv knows cannot be freed here; init fails for want of memory. */
		if (f->handles == 0) {
			if (f->memory)
				(void)munmap((void *)f->memory, MEMORY_SIZE);
			free(f);
		}
		return r;
	}
	*ret = f;
	return 0;
}

enum fs_server_state fs_server_state(const struct fs_server *f)
{
	return f->state;
}
