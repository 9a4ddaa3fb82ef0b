/* SPDX-License-Identifier: Apache-2.0 */
#include "mounts.h"

#include "fs-pool.h"
#include "fs-server.h"
#include "fuse-message.h"
#include "mounts-internal.h"

#include "../base/fd.h"
#include "../base/install.h"
#include "../base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Servers that are not ready, a guest that does not answer, tables that are not written by then. */
#define READY_MS 10000
#define SAVE_MS 2000
#define GONE_MS 10000
/* Answers that wait for the guest: above the first, no more are read; below the second, again. */
#define QUEUED_HIGH (8u * 1024 * 1024)
#define QUEUED_LOW (2u * 1024 * 1024)

/* ---- what is waited for ---- */

static void forget_going(struct mounts *ms)
{
	if (ms->going)
		fs_server_when_gone(ms->going, NULL, NULL);
	ms->going = NULL;
}

void mounts_settle(struct mounts *ms, const struct err *why)
{
	mounts_done done = ms->done;
	struct err copy;

	if (ms->wait == WAIT_NONE)
		return;
	if (why)
		copy = *why;
	ms->wait = WAIT_NONE;
	ms->done = NULL;
	(void)uv_timer_stop(&ms->timer);
	for (struct mount *m = ms->list; m; m = m->next)
		m->saving = false;
	/* Answers that come later are nobody's. */
	for (struct ask *a = ms->asks; a; a = a->next)
		a->ms = NULL;
	ms->asks = NULL;
	forget_going(ms);
	done(ms->ctx, why ? &copy : NULL);
}

static bool all_ready(const struct mounts *ms)
{
	for (const struct mount *m = ms->list; m; m = m->next)
		if (fs_server_state(m->server) == FS_SERVER_STARTING)
			return false;
	return true;
}

static bool any_saving(const struct mounts *ms)
{
	for (const struct mount *m = ms->list; m; m = m->next)
		if (m->saving)
			return true;
	return false;
}

void mounts_settle_if_complete(struct mounts *ms)
{
	bool complete = (ms->wait == WAIT_READY && all_ready(ms)) ||
			(ms->wait == WAIT_GUEST && !ms->asks) ||
			(ms->wait == WAIT_SAVE && !any_saving(ms)) ||
			(ms->wait == WAIT_GONE && !ms->going);

	if (complete)
		mounts_settle(ms, ms->failed ? &ms->why : NULL);
}

static void on_timeout(uv_timer_t *timer)
{
	struct mounts *ms = timer->data;
	const struct mount *late = ms->list;
	struct err why;

	if (ms->wait == WAIT_GUEST) {
		(void)err_set(&why, ERR_TIMEOUT, 0, "the guest does not answer about its mounts");
		mounts_settle(ms, &why);
		return;
	}
	if (ms->wait == WAIT_GONE) {
		(void)err_set(&why, ERR_TIMEOUT, 0,
			"the mount is removed, but its server does not end: the host's folder is "
			"busy until it does");
		mounts_settle(ms, &why);
		return;
	}
	while (late && late->next &&
		!(ms->wait == WAIT_SAVE ? late->saving
					: fs_server_state(late->server) == FS_SERVER_STARTING))
		late = late->next;
	(void)err_set(&why, ERR_TIMEOUT, 0, "the server of the mount %.200s does not answer",
		late ? late->spec.guest : "");
	mounts_settle(ms, &why);
}

void mounts_begin_wait(
	struct mounts *ms, enum wait wait, uint64_t limit_ms, mounts_done done, void *ctx)
{
	ms->wait = wait;
	ms->failed = false;
	ms->done = done;
	ms->ctx = ctx;
	(void)uv_timer_start(&ms->timer, on_timeout, limit_ms, 0);
}

void mounts_note_failure(struct mounts *ms, const struct err *why)
{
	if (!ms->failed)
		ms->why = *why;
	ms->failed = true;
}

/* ---- the servers ---- */

static int hint_remove(const struct mounts *ms, const struct spec_mount *m, struct err *e)
{
	return err_hint(e, "kosa8 sandbox mount rm %s %.120s", ms->config.sandbox, m->guest);
}

static void on_ready(void *ctx)
{
	mounts_settle_if_complete(((struct mount *)ctx)->ms);
}

static void set_reading(struct mounts *ms, bool on)
{
	for (struct mount *m = ms->list; m; m = m->next)
		fs_server_read(m->server, on);
	if (on)
		(void)uv_prepare_stop(&ms->prepare);
}

/* Once in each turn of the loop, while answers are not read. */
static void on_prepare(uv_prepare_t *prepare)
{
	struct mounts *ms = prepare->data;

	if (!ms->machine || link_queued(machine_fs(ms->machine)) < QUEUED_LOW)
		set_reading(ms, true);
}

static void after_reply(struct mounts *ms)
{
	if (link_queued(machine_fs(ms->machine)) <= QUEUED_HIGH ||
		uv_is_active((uv_handle_t *)&ms->prepare))
		return;
	set_reading(ms, false);
	(void)uv_prepare_start(&ms->prepare, on_prepare);
}

static void on_reply_slot(void *ctx, struct fs_answer *a)
{
	struct mount *m = ctx;

	a->mount = m->spec.id;
	if (m->ms->machine) {
		machine_fs_answer(m->ms->machine, a);
		after_reply(m->ms);
	}
}

static void on_reply(void *ctx, const void *data, size_t len)
{
	struct mount *m = ctx;

	if (m->ms->machine) {
		link_send(machine_fs(m->ms->machine), AGENT_FUSE, m->spec.id, data, len);
		machine_kick(m->ms->machine);
		after_reply(m->ms);
	}
}

static void on_saved(void *ctx, int errnum)
{
	struct mount *m = ctx;
	struct err why;

	if (!m->saving)
		return;
	m->saving = false;
	if (errnum != 0) {
		(void)err_errno(&why, errnum, "cannot save the open files of the mount %.200s",
			m->spec.guest);
		mounts_note_failure(m->ms, &why);
	}
	mounts_settle_if_complete(m->ms);
}

static void on_failed(void *ctx, const struct err *why)
{
	struct mount *m = ctx;
	struct mounts *ms = m->ms;
	struct err e = *why;

	(void)snprintf(m->why, sizeof(m->why), "%s", why->what);
	m->saving = false;
	(void)err_wrap(&e, "the mount %.200s failed", m->spec.guest);
	log_warn("%s", e.what);
	(void)hint_remove(ms, &m->spec, &e);
	if ((ms->wait == WAIT_READY && !m->told) || ms->wait == WAIT_SAVE)
		mounts_settle(ms, &e);
}

/* ---- the set ---- */

static void on_closed(uv_handle_t *handle)
{
	struct mounts *ms = handle->data;

	if (--ms->handles > 0)
		return;
	while (ms->list) {
		struct mount *m = ms->list;
		ms->list = m->next;
		spec_mount_release(&m->spec);
		free(m);
	}
	free(ms);
}

struct mounts *mounts_new(const struct mounts_config *config)
{
	struct mounts *ms = calloc(1, sizeof(*ms));

	if (!ms)
		return NULL;
	ms->config = *config;
	(void)uv_timer_init(config->loop, &ms->timer);
	(void)uv_prepare_init(config->loop, &ms->prepare);
	ms->timer.data = ms->prepare.data = ms;
	ms->handles = 2;
	return ms;
}

void mounts_free(struct mounts *ms)
{
	if (!ms || uv_is_closing((uv_handle_t *)&ms->timer))
		return;
	ms->machine = NULL;
	ms->wait = WAIT_NONE;
	forget_going(ms);
	for (struct ask *a = ms->asks; a; a = a->next)
		a->ms = NULL;
	ms->asks = NULL;
	for (struct mount *m = ms->list; m; m = m->next)
		fs_server_free(m->server);
	uv_close((uv_handle_t *)&ms->timer, on_closed);
	uv_close((uv_handle_t *)&ms->prepare, on_closed);
}

/* Opens the folder that was checked when the mount was made, and no other. */
static int open_root(struct mounts *ms, const struct spec_mount *m, int *ret, struct err *e)
{
	cleanup_fd int fd = -1;
	char *path = NULL;
	int r = spec_mount_open(m->host, ms->config.home_dirfd, &fd, &path, e);

	if (r == 0 && strcmp(path, m->host) != 0)
		r = err_set(e, ERR_NOT_FOUND, 0,
			"the folder %.200s of the mount %.100s is another one now", m->host,
			m->guest);
	else if (r < 0 && e->kind == ERR_NOT_FOUND)
		r = err_set(e, ERR_NOT_FOUND, e->errnum,
			"the folder %.200s of the mount %.100s is gone", m->host, m->guest);
	else if (r < 0)
		r = err_wrap(e, "the mount %.100s", m->guest);
	free(path);
	if (r < 0)
		return hint_remove(ms, m, e);
	*ret = fd_take(&fd);
	return 0;
}

int mounts_add(struct mounts *ms, const struct spec_mount *spec, int table_fd, struct err *e)
{
	static const struct fs_server_events events = {
		on_ready, on_reply, on_reply_slot, on_saved, on_failed};
	char program[PATH_MAX];
	cleanup_fd int root = -1;
	int r;

	if ((r = install_program("kosa8-fs", program, sizeof(program), e)) < 0 ||
		(r = open_root(ms, spec, &root, e)) < 0)
		return r;
	struct mount *m = calloc(1, sizeof(*m));
	if (!m || spec_mount_copy(spec, &m->spec) < 0) {
		free(m);
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	}
	m->ms = ms;
	struct fs_server_start start = {.program = program,
		.root_fd = root,
		.table_fd = table_fd,
		.read_only = spec->mode != AGENT_MOUNT_RW};
	r = fs_server_start(ms->config.loop, &start, &events, m, &m->server, e);
	if (r < 0) {
		spec_mount_release(&m->spec);
		free(m);
		return r;
	}
	/* In their order: one may lie in another. */
	struct mount **at = &ms->list;
	while (*at)
		at = &(*at)->next;
	*at = m;
	return 0;
}

struct mount *mounts_find(const struct mounts *ms, uint32_t id)
{
	struct mount *m = ms->list;

	while (m && m->spec.id != id)
		m = m->next;
	return m;
}

/* Returns its server, which is being ended; NULL: there is no such mount. */
static struct fs_server *take_out(struct mounts *ms, uint32_t id)
{
	for (struct mount **at = &ms->list; *at; at = &(*at)->next) {
		struct mount *m = *at;
		if (m->spec.id != id)
			continue;
		*at = m->next;
		struct fs_server *server = m->server;
		fs_server_abandon(server);
		fs_server_free(server);
		spec_mount_release(&m->spec);
		free(m);
		return server;
	}
	return NULL;
}

void mounts_remove(struct mounts *ms, uint32_t id)
{
	(void)take_out(ms, id);
}

static void on_gone(void *ctx)
{
	struct mounts *ms = ctx;

	ms->going = NULL;
	mounts_settle_if_complete(ms);
}

void mounts_remove_wait(struct mounts *ms, uint32_t id, mounts_done done, void *ctx)
{
	mounts_begin_wait(ms, WAIT_GONE, GONE_MS, done, ctx);
	ms->going = take_out(ms, id);
	if (ms->going)
		fs_server_when_gone(ms->going, on_gone, ms);
	mounts_settle_if_complete(ms);
}

void mounts_when_ready(struct mounts *ms, mounts_done done, void *ctx)
{
	struct err why;

	mounts_begin_wait(ms, WAIT_READY, READY_MS, done, ctx);
	for (struct mount *m = ms->list; m; m = m->next)
		if (!m->told && fs_server_state(m->server) == FS_SERVER_FAILED) {
			(void)err_set(&why, ERR_IO, 0, "the mount %.200s failed: %.200s",
				m->spec.guest, m->why);
			(void)hint_remove(ms, &m->spec, &why);
			mounts_settle(ms, &why);
			return;
		}
	mounts_settle_if_complete(ms);
}

void mounts_bind(struct mounts *ms, struct machine *m)
{
	ms->machine = m;
}

/* A request to a mount that is not there (any more): whoever waits for it is not left hanging. */
static int refuse(struct mounts *ms, const struct frame *f, size_t len, struct err *e)
{
	unsigned char answer[FUSE_ERROR_SIZE];
	uint64_t unique;
	bool answered;

	if (fuse_request_parse(f->payload, len, &unique, &answered) < 0)
		return err_set(e, ERR_PROTOCOL, 0,
			"the guest's agent sent a message that is no file request");
	if (!answered || !ms->machine)
		return 0;
	fuse_error_encode(unique, ENOTCONN, answer);
	link_send(machine_fs(ms->machine), AGENT_FUSE, f->stream, answer, sizeof(answer));
	machine_kick(ms->machine);
	return 0;
}

int mounts_frame(struct mounts *ms, const struct frame *f, struct err *e)
{
	struct mount *m = mounts_find(ms, f->stream);
	uint32_t slot = FS_SERVER_NO_SLOT;
	size_t len = f->len;

	if (f->type == AGENT_FUSE_SLOT && fuse_slot_request_parse(f->payload, len, &slot) == 0)
		len -= sizeof(slot);
	else if (f->type != AGENT_FUSE)
		return err_set(e, ERR_PROTOCOL, 0,
			"the guest's agent sent a frame that does not belong to a mount");
	if (!m)
		return refuse(ms, f, len, e);
	fs_server_request(m->server, f->payload, len, slot);
	return 0;
}

/* ---- checkpoints ---- */

void mounts_table_name(uint32_t id, char ret[static MOUNTS_TABLE_SIZE])
{
	(void)snprintf(ret, MOUNTS_TABLE_SIZE, "nodes.%u", id);
}

int mounts_check(const struct mounts *ms, struct err *e)
{
	for (const struct mount *m = ms->list; m; m = m->next)
		if (fs_server_state(m->server) == FS_SERVER_FAILED) {
			(void)err_set(e, ERR_WRONG_STATE, 0, "the mount %.200s has failed: %.200s",
				m->spec.guest, m->why);
			return hint_remove(ms, &m->spec, e);
		}
	return 0;
}

static int save_one(struct mount *m, int dirfd, struct err *e)
{
	char name[MOUNTS_TABLE_SIZE];

	mounts_table_name(m->spec.id, name);
	cleanup_fd int fd = openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(e, errno, "cannot make the checkpoint's files");
	int r = fs_server_save(m->server, fd);
	if (r < 0)
		return err_errno(
			e, -r, "cannot save the open files of the mount %.200s", m->spec.guest);
	m->saving = fs_server_state(m->server) == FS_SERVER_READY;
	return 0;
}

void mounts_save(struct mounts *ms, int dirfd, mounts_done done, void *ctx)
{
	struct err e;

	mounts_begin_wait(ms, WAIT_SAVE, SAVE_MS, done, ctx);
	for (struct mount *m = ms->list; m && ms->wait == WAIT_SAVE; m = m->next)
		if (save_one(m, dirfd, &e) < 0)
			mounts_settle(ms, &e);
	if (ms->wait == WAIT_SAVE)
		mounts_settle_if_complete(ms);
}

json_t *mounts_status(const struct mounts *ms)
{
	static const char *const names[] = {
		[FS_SERVER_STARTING] = "starting",
		[FS_SERVER_READY] = "mounted",
		[FS_SERVER_FAILED] = "failed",
	};
	json_t *list = json_array();

	for (const struct mount *m = ms->list; m; m = m->next)
		(void)json_array_append_new(
			list, json_pack("{s:s, s:s, s:s?}", "guest", m->spec.guest, "state",
				      names[fs_server_state(m->server)], "error",
				      *m->why ? m->why : NULL));
	return list;
}
