/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include "fs-pool.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* QEMU closes its ports within this time of its process's end. */
#define ENDS_MS 200
/* What may wait for the guest on the ports beside the mux. */
#define NET_OUT_MAX (80u * 1024 * 1024)
#define FS_OUT_MAX (64u * 1024 * 1024)

struct attached {
	struct machine_image image;
	bool mounted; /* the agent said so in this epoch */
};

enum { POLL_MUX, POLL_NET, POLL_FS, POLL_QMP, POLL_PID, POLL_COUNT };

struct machine {
	struct vm *vm;
	struct channel *channel;
	struct link net, fs;
	struct fs_pool pool;
	uint32_t epoch;
	uint32_t quiesce; /* number of the one that is under way, 0: none */
	int images_dirfd;
	struct attached images[VM_IMAGES_MAX];
	size_t images_len;
	uv_poll_t polls[POLL_COUNT];
	unsigned open_polls; /* handles that libuv still knows */
	bool ready, died, freed;
	unsigned depth; /* callbacks of this object that are on the stack */
	struct machine_events events;
	void *ctx;
};

static void release(struct machine *m)
{
	channel_free(m->channel);
	link_release(&m->net);
	link_release(&m->fs);
	vm_free(m->vm);
	m->channel = NULL;
	m->vm = NULL;
}

static void on_poll_closed(uv_handle_t *handle)
{
	struct machine *m = handle->data;

	if (--m->open_polls == 0)
		free(m);
}

static void destroy(struct machine *m)
{
	unsigned polls = m->open_polls;

	for (unsigned i = 0; i < polls; i++)
		(void)uv_poll_stop(&m->polls[i]);
	release(m);
	if (polls == 0)
		free(m);
	for (unsigned i = 0; i < polls; i++)
		uv_close((uv_handle_t *)&m->polls[i], on_poll_closed);
}

static void abort_links(struct machine *m)
{
	link_abort(&m->net);
	link_abort(&m->fs);
	if (m->channel)
		channel_abort(m->channel);
}

void machine_free(struct machine *m)
{
	if (!m || m->freed)
		return;
	m->freed = true;
	abort_links(m);
	if (m->depth == 0)
		destroy(m);
}

static void enter(struct machine *m)
{
	m->depth++;
}

static void leave(struct machine *m)
{
	if (--m->depth == 0 && m->freed)
		destroy(m);
}

static void died(struct machine *m, const struct err *why)
{
	if (m->died || m->freed)
		return;
	m->died = true;
	enter(m); /* the callbacks may free it */
	abort_links(m);
	if (!m->freed)
		m->events.died(m->ctx, m, why);
	leave(m);
}

static void on_resumed(void *ctx)
{
	struct machine *m = ctx;

	if (m->ready || m->freed)
		return;
	m->ready = true;
	m->events.ready(m->ctx, m);
}

static void on_quiesced(void *ctx, uint32_t number)
{
	struct machine *m = ctx;

	if (m->freed)
		return;
	/* One that comes too late must not hold what the resume released. */
	if (number == m->quiesce && number != 0)
		link_hold(&m->fs);
	m->events.quiesced(m->ctx, m, number);
}

static void on_session_frame(void *ctx, const struct frame *f)
{
	struct machine *m = ctx;

	if (!m->freed)
		m->events.session_frame(m->ctx, m, f);
}

static int on_net_frame(void *ctx, const struct frame *f, struct err *e)
{
	struct machine *m = ctx;

	return m->freed || !m->events.net_frame ? 0 : m->events.net_frame(m->ctx, m, f, e);
}

static int on_fs_frame(void *ctx, const struct frame *f, struct err *e)
{
	struct machine *m = ctx;

	if (!m->freed && f->type == AGENT_FUSE_POOL)
		return fs_pool_name(&m->pool, m->vm, f, e);
	return m->freed || !m->events.fs_frame ? 0 : m->events.fs_frame(m->ctx, m, f, e);
}

/* When QEMU ends, its ports may be heard of before its process: then the process's end is told. */
static bool ends_now(const struct machine *m)
{
	struct pollfd p = {.fd = vm_pidfd(m->vm), .events = POLLIN};

	return poll(&p, 1, ENDS_MS) > 0;
}

static void on_broken(void *ctx, const struct err *why)
{
	struct machine *m = ctx;

	if (why->kind == ERR_PROTOCOL || why->kind == ERR_LIMIT || !ends_now(m))
		died(m, why);
}

static void on_port(uv_poll_t *handle, int status, int events);

static bool wants_write(const struct machine *m, int port)
{
	if (port == POLL_MUX)
		return channel_wants_write(m->channel);
	return link_wants_write(port == POLL_NET ? &m->net : &m->fs);
}

static void watch(struct machine *m, int port)
{
	int events = UV_READABLE | (wants_write(m, port) ? UV_WRITABLE : 0);

	if (!m->freed && !m->died)
		(void)uv_poll_start(&m->polls[port], events, on_port);
}

void machine_kick(struct machine *m)
{
	if (m->freed || m->died)
		return;
	for (int port = POLL_MUX; port <= POLL_FS; port++)
		if (wants_write(m, port))
			watch(m, port);
}

static void on_port(uv_poll_t *handle, int status, int events)
{
	struct machine *m = handle->data;
	int port = (int)(handle - m->polls);
	int r;

	(void)status;
	(void)events;
	enter(m);
	if (port == POLL_MUX)
		r = channel_process(m->channel);
	else
		r = link_process(port == POLL_NET ? &m->net : &m->fs);
	if (r < 0)
		(void)uv_poll_stop(handle);
	else if (!m->freed)
		watch(m, port);
	leave(m);
}

static void on_qmp(uv_poll_t *handle, int status, int events)
{
	struct machine *m = handle->data;
	enum vm_event event;

	(void)status;
	(void)events;
	enter(m);
	while (!m->freed && (event = vm_events(m->vm)) != VM_EVENT_NONE) {
		if (event == VM_EVENT_GONE) {
			(void)uv_poll_stop(handle);
			break;
		}
		m->events.vm_event(m->ctx, m, event);
	}
	leave(m);
}

static void on_process_end(uv_poll_t *handle, int status, int events)
{
	struct machine *m = handle->data;
	struct err why;

	(void)status;
	(void)events;
	enter(m);
	(void)uv_poll_stop(handle);
	int code = vm_wait(m->vm);
	if (code > 128)
		(void)err_set(&why, ERR_CANCELLED, 0, "QEMU was ended by signal %d", code - 128);
	else
		(void)err_set(&why, ERR_CANCELLED, 0, "QEMU ended with status %d", code);
	died(m, &why);
	leave(m);
}

static int open_image(int images_dirfd, const char *digest, struct err *e)
{
	char name[MACHINE_DIGEST_SIZE + 8];

	(void)snprintf(name, sizeof(name), "%s.sqfs", digest);
	int fd = openat(images_dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0)
		return fd;
	int r = err_errno(e, errno, "cannot open the image sha256:%.12s", digest);
	if (e->errnum == ENOENT)
		(void)err_hint(e, "pull it again");
	return r;
}

static int start_vm(struct machine *m, const struct machine_source *s, int log_fd, struct err *e)
{
	struct vm_image images[VM_IMAGES_MAX];
	int fds[VM_IMAGES_MAX], r = 0;
	size_t n = 0;

	if (s->images_len > VM_IMAGES_MAX)
		return err_set(e, ERR_LIMIT, 0, "more than %d images", VM_IMAGES_MAX);
	for (; n < s->images_len; n++) {
		fds[n] = r = open_image(s->images_dirfd, s->images[n].digest, e);
		if (r < 0)
			break;
		images[n] = (struct vm_image){.lun = s->images[n].lun, .fd = fds[n]};
		m->images[n].image = s->images[n];
	}
	struct vm_start start = {.host = s->host,
		.template = s->template,
		.layers_dirfd = s->layers_dirfd,
		.layers = s->layers,
		.layers_len = s->layers_len,
		.images = images,
		.images_len = n,
		.log_fd = log_fd};
	if (r >= 0)
		r = vm_start(&start, &m->vm, e);
	while (n > 0)
		(void)fd_close(fds[--n]);
	m->images_len = s->images_len;
	return r < 0 ? r : 0;
}

static int start_polls(uv_loop_t *loop, struct machine *m)
{
	static const uv_poll_cb callbacks[POLL_COUNT] = {
		on_port, on_port, on_port, on_qmp, on_process_end};
	int fds[POLL_COUNT] = {vm_mux_fd(m->vm), vm_net_fd(m->vm), vm_fs_fd(m->vm),
		vm_qmp_fd(m->vm), vm_pidfd(m->vm)};

	for (int i = 0; i < POLL_COUNT; i++) {
		int r = uv_poll_init(loop, &m->polls[i], fds[i]);
		if (r < 0)
			return r;
		m->polls[i].data = m;
		m->open_polls++;
		if ((r = uv_poll_start(&m->polls[i], UV_READABLE, callbacks[i])) < 0)
			return r;
	}
	return 0;
}

static int load_and_run(struct machine *m, const struct machine_source *s, struct err *e)
{
	static const struct channel_events events = {
		.resumed = on_resumed,
		.quiesced = on_quiesced,
		.session_frame = on_session_frame,
		.broken = on_broken,
	};
	static const struct link_events net_events = {on_net_frame, on_broken};
	static const struct link_events fs_events = {on_fs_frame, on_broken};
	int r = vm_load(m->vm, s->pages_fd, s->device_fd, e);

	if (r < 0)
		return r;
	m->channel = channel_new(vm_mux_fd(m->vm), vm_resume_fd(m->vm), s->epoch, &events, m);
	if (!m->channel)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	link_init(&m->net, vm_net_fd(m->vm), s->epoch, NET_OUT_MAX, &net_events, m);
	link_init(&m->fs, vm_fs_fd(m->vm), s->epoch, FS_OUT_MAX, &fs_events, m);
	/* The record waits in the port when the guest's first instruction runs. */
	if ((r = channel_resume(m->channel, true, e)) < 0)
		return r;
	if (link_sync(&m->net, channel_nonce(m->channel)) < 0 ||
		link_sync(&m->fs, channel_nonce(m->channel)) < 0)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	return vm_run(m->vm, e);
}

int machine_start(uv_loop_t *loop, const struct machine_source *s, int log_fd,
	const struct machine_events *events, void *ctx, struct machine **ret, struct err *e)
{
	struct machine *m = calloc(1, sizeof(*m));

	if (!m)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	m->events = *events;
	m->ctx = ctx;
	m->epoch = s->epoch;
	m->images_dirfd = s->images_dirfd;
	int r = start_vm(m, s, log_fd, e);
	if (r == 0)
		r = load_and_run(m, s, e);
	if (r == 0 && (r = start_polls(loop, m)) < 0)
		r = err_errno(e, -r, "cannot watch the VM");
	if (r < 0) {
		machine_free(m);
		return r;
	}
	machine_kick(m);
	*ret = m;
	return 0;
}

struct vm *machine_vm(struct machine *m)
{
	return m->vm;
}

struct channel *machine_channel(struct machine *m)
{
	return m->channel;
}

struct link *machine_net(struct machine *m)
{
	return &m->net;
}

struct link *machine_fs(struct machine *m)
{
	return &m->fs;
}

void machine_fs_answer(struct machine *m, const struct fs_answer *a)
{
	if (m->freed || m->died)
		return;
	fs_pool_answer(&m->pool, m->vm, &m->fs, a);
	machine_kick(m);
}

uint32_t machine_quiesce(struct machine *m)
{
	m->quiesce = channel_quiesce(m->channel);
	link_hold(&m->net);
	machine_kick(m);
	return m->quiesce;
}

int machine_resume(struct machine *m, struct err *e)
{
	int r = channel_resume(m->channel, false, e);

	m->quiesce = 0;
	if (r < 0)
		return r;
	if (link_unhold(&m->net) < 0 || link_unhold(&m->fs) < 0)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	machine_kick(m);
	return 0;
}

uint32_t machine_epoch(const struct machine *m)
{
	return m->epoch;
}

size_t machine_images_len(const struct machine *m)
{
	return m->images_len;
}

const struct machine_image *machine_image_at(const struct machine *m, size_t i)
{
	return &m->images[i].image;
}

/* An attach that waits for the agent. */
struct attach {
	struct machine *m;
	uint32_t lun;
	void (*done)(void *ctx, const struct err *why);
	void *ctx;
};

static void on_attach_reply(void *ctx, const struct agent_reply *reply)
{
	struct attach *a = ctx;
	struct attach call = *a;
	struct err why;

	free(a);
	if (!reply) {
		(void)err_set(&why, ERR_CANCELLED, 0, "the VM ended");
		call.done(call.ctx, &why);
		return;
	}
	if (reply->status != 0) {
		(void)err_set(&why, ERR_IO, (int)(reply->status & 0xfff),
			"the guest cannot mount the image: %s", reply->text);
		(void)err_hint(&why,
			"its file may be damaged: pull or load it again, then stop and start the "
			"sandbox");
		call.done(call.ctx, &why);
		return;
	}
	for (size_t i = 0; i < call.m->images_len; i++)
		if (call.m->images[i].image.lun == call.lun)
			call.m->images[i].mounted = true;
	call.done(call.ctx, NULL);
}

/* Gives the VM a LUN with this image. */
static int add_lun(struct machine *m, const char *digest, struct attached **ret, struct err *e)
{
	uint32_t lun = 1;

	if (m->images_len == VM_IMAGES_MAX)
		return err_set(e, ERR_LIMIT, 0, "a sandbox holds at most %d images", VM_IMAGES_MAX);
	for (size_t i = 0; i < m->images_len; i++)
		if (m->images[i].image.lun >= lun)
			lun = m->images[i].image.lun + 1;
	cleanup_fd int fd = open_image(m->images_dirfd, digest, e);
	if (fd < 0)
		return fd;
	struct vm_image image = {.lun = lun, .fd = fd};
	int r = vm_attach(m->vm, &image, e);
	if (r < 0)
		return r;
	struct attached *a = &m->images[m->images_len++];
	*a = (struct attached){.image.lun = lun};
	memcpy(a->image.digest, digest, sizeof(a->image.digest));
	*ret = a;
	return 0;
}

int machine_attach(struct machine *m, const char *digest,
	void (*done)(void *ctx, const struct err *why), void *ctx, struct err *e)
{
	struct attached *found = NULL;
	cleanup_buf struct buf payload = {0};
	int r;

	for (size_t i = 0; i < m->images_len; i++)
		if (strcmp(m->images[i].image.digest, digest) == 0)
			found = &m->images[i];
	if (!found && (r = add_lun(m, digest, &found, e)) < 0)
		return r;
	if (found->mounted) {
		done(ctx, NULL);
		return 0;
	}
	/* Also when an earlier request for it is still out: the agent mounts it once. */
	struct agent_image message = {.lun = found->image.lun};
	(void)snprintf(message.digest, sizeof(message.digest), "%s", digest);
	buf_init(&payload, 256);
	agent_image_encode(&payload, &message);
	struct attach *a = malloc(sizeof(*a));
	if (!a || buf_failed(&payload)) {
		free(a);
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	}
	*a = (struct attach){m, found->image.lun, done, ctx};
	r = channel_request(m->channel, AGENT_ATTACH_IMAGE, &payload, on_attach_reply, a, e);
	if (r < 0)
		free(a);
	else
		machine_kick(m);
	return r;
}
