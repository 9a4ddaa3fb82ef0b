/* SPDX-License-Identifier: Apache-2.0 */
#include "fs-mounts.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/log.h"
#include "boot.h"
#include "fs-attach.h"
#include "trash.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int fs_mounts_init(struct fs_mounts *fm, struct err *e)
{
	fm->shared = mmap(NULL, sizeof(*fm->shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (fm->shared == MAP_FAILED)
		return err_errno(e, errno, "shared memory");
	if ((mkdir("/run/kosa8", 0700) < 0 && errno != EEXIST) ||
		(mkdir(PATH_MOUNTS, 0700) < 0 && errno != EEXIST))
		return err_errno(e, errno, PATH_MOUNTS);
	return 0;
}

static struct fs_mount *find(struct fs_mounts *fm, uint32_t id)
{
	for (size_t i = 0; i < RELAY_MOUNTS_MAX; i++)
		if (fm->mount[i].state != FS_FREE && fm->mount[i].id == id)
			return &fm->mount[i];
	return NULL;
}

static void answer(struct fs_mounts *fm, uint32_t *stream, const struct agent_reply *reply)
{
	if (*stream)
		mux_reply(fm->mux, AGENT_REPLY, *stream, reply);
	*stream = 0;
}

static struct agent_reply reply_of(int r, const char *text)
{
	struct agent_reply m = {.status = (uint32_t)-r};

	(void)snprintf(m.text, sizeof(m.text), "%.*s", AGENT_TEXT_MAX - 1, text);
	return m;
}

static struct agent_reply reply_of_err(const struct err *e)
{
	return reply_of(err_code(e), e->what);
}

static void enter(struct fs_mount *m, enum fs_state state, int limit_ms)
{
	m->state = state;
	m->deadline_ms = limit_ms < 0 ? -1 : clock_mono_ms() + limit_ms;
}

static void set_visible(struct fs_mounts *fm, struct fs_mount *m, bool visible)
{
	m->visible = visible;
	m->serial = ++fm->serial;
}

static void close_mount(struct fs_mounts *fm, struct fs_mount *m)
{
	struct relay_message ask = {.op = RELAY_UNMOUNT, .id = m->id};

	enter(m, FS_CLOSING, -1);
	m->relay_done = !relay_send(fm->relay, &ask);
}

/* Where all ends; `why` is MOUNT's answer when it has none yet, given when the id is free again. */
static void begin_detach(struct fs_mounts *fm, struct fs_mount *m, const struct agent_reply *why)
{
	m->failure = *why;
	/* Nobody saw it, and there is nothing to write back. */
	if (!m->visible)
		return close_mount(fm, m);
	set_visible(fm, m, false);
	enter(m, FS_DETACHING, FS_STARTING_MS);
}

static void make_folders(uint32_t id)
{
	char path[RELAY_PATH_SIZE];

	for (const char *const *what = (const char *const[]){"", "fs", "cow", NULL}; *what;
		what++) {
		relay_path(id, *what, path);
		(void)mkdir(path, 0700);
	}
}

static void remove_folders(uint32_t id)
{
	char path[RELAY_PATH_SIZE];

	relay_path(id, "cow", path);
	(void)umount2(path, MNT_DETACH);
	for (const char *const *what = (const char *const[]){"cow", "fs", "", NULL}; *what;
		what++) {
		relay_path(id, *what, path);
		(void)rmdir(path);
	}
}

static struct fs_mount *find_free(struct fs_mounts *fm)
{
	for (size_t i = 0; i < RELAY_MOUNTS_MAX; i++)
		if (fm->mount[i].state == FS_FREE)
			return &fm->mount[i];
	return NULL;
}

static int open_mount(struct fs_mounts *fm, uint32_t stream, struct agent_mount *a, struct err *e)
{
	struct fs_mount *m = find_free(fm);
	struct relay_message ask = {
		.op = RELAY_MOUNT, .id = a->id, .cow = a->mode == AGENT_MOUNT_COW};

	if (a->id == 0)
		return err_set(e, ERR_INVALID, EINVAL, "0 is not the id of a mount");
	if (fs_path_check(a->path, e) < 0)
		return err_code(e);
	if (!m)
		return err_set(e, ERR_LIMIT, EMFILE, "there are %d mounts, which is the limit",
			RELAY_MOUNTS_MAX);
	make_folders(a->id);
	if (!relay_send(fm->relay, &ask))
		return err_set(e, ERR_IO, EIO, "the guest's relay for mounts does not run");
	*m = (struct fs_mount){.id = a->id, .mode = a->mode, .path = a->path, .stream = stream};
	a->path = NULL;
	fm->shared->owner[m - fm->mount] = (struct fs_owner){0};
	enter(m, FS_OPENING, FS_INIT_MS);
	return 0;
}

void fs_mounts_add(struct fs_mounts *fm, uint32_t stream, struct agent_mount *a)
{
	struct fs_mount *m = find(fm, a->id);
	struct agent_reply reply = {0};
	struct err e;

	if (m && m->state < FS_LIVE && m->stream == 0) {
		m->stream = stream;
		return;
	}
	if (m && m->state != FS_LIVE)
		reply = reply_of(-EBUSY, "the mount is on its way");
	else if (m && (m->mode != a->mode || strcmp(m->path, a->path) != 0))
		reply = reply_of(-EEXIST, "a mount of this id has another path or mode");
	else if (!m && open_mount(fm, stream, a, &e) < 0)
		reply = reply_of_err(&e);
	else if (!m)
		return;
	answer(fm, &stream, &reply);
}

static void discard_layer(struct fs_mounts *fm, uint32_t id)
{
	char name[16];
	cleanup_fd int cow = openat(fm->disk->fd, "cow", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)snprintf(name, sizeof(name), "%u", id);
	int r = cow < 0 ? -errno : trash_take(fm->disk->trash_fd, cow, name);
	if (r == 0)
		keeper_empty_trash(fm->keeper);
	else if (r != -ENOENT)
		log_warn("remove what mount %u wrote: %s", id, strerror(-r));
}

void fs_mounts_remove(struct fs_mounts *fm, uint32_t stream, uint32_t id)
{
	static const struct agent_reply ended = {
		.status = ECANCELED, .text = "the mount was removed"};
	struct fs_mount *m = find(fm, id);
	struct agent_reply reply = {0};

	if (m && m->unmount_stream)
		reply = reply_of(-EALREADY, "the mount is being removed");
	if (!m)
		discard_layer(fm, id);
	if (!m || m->unmount_stream)
		return answer(fm, &stream, &reply);
	m->unmount_stream = stream;
	m->discard = true;
	if (m->state <= FS_LIVE && m->job == 0)
		begin_detach(fm, m, &ended);
}

/* A job, with what it needs to know about the containers. */
static void start_job(struct fs_mounts *fm, struct fs_mount *m, const pid_t *inits, size_t n)
{
	struct agent_reply *ret = &fm->shared->job[m - fm->mount];
	char path[RELAY_PATH_SIZE];
	struct err e;
	int r = 0;

	*ret = reply_of(-EIO, "a helper process was lost");
	m->deadline_ms = clock_mono_ms() + FS_JOB_MS;
	m->job = fork();
	if (m->job < 0) {
		m->job = 0;
		*ret = reply_of(-errno, "start a helper process");
		return;
	}
	if (m->job > 0)
		return;
	(void)prctl(PR_SET_NAME, "mounts");
	(void)prctl(PR_SET_DUMPABLE, 0);
	if (m->state == FS_LAYERING)
		r = fs_job_layer(m, &e);
	else if (m->state == FS_ATTACHING)
		r = fs_attach_to(
			inits, n, fs_mount_dir(m, path), m->mode == AGENT_MOUNT_RO, m->path, &e);
	else
		r = fs_job_detach(m, inits, n, &e);
	*ret = r < 0 ? reply_of_err(&e) : (struct agent_reply){0};
	_exit(0);
}

static void begin_attach(struct fs_mounts *fm, struct fs_mount *m)
{
	set_visible(fm, m, true);
	enter(m, FS_ATTACHING, FS_STARTING_MS);
}

static void end(struct fs_mounts *fm, struct fs_mount *m)
{
	remove_folders(m->id);
	if (m->discard)
		discard_layer(fm, m->id);
	answer(fm, &m->stream, &m->failure);
	answer(fm, &m->unmount_stream, &(struct agent_reply){0});
	free(m->path);
	*m = (struct fs_mount){.state = FS_FREE};
}

void fs_mounts_relay(struct fs_mounts *fm, const struct relay_message *a)
{
	struct fs_mount *m = find(fm, a->id);

	if (!m || (a->op == RELAY_MOUNTED ? m->state != FS_OPENING : m->state != FS_CLOSING))
		return;
	m->relay_done = true;
	m->result = reply_of(-(int)a->status, a->text);
}

/* The job of this state has ended, or none could be started: its result is in the shared memory. */
static void job_done(struct fs_mounts *fm, struct fs_mount *m)
{
	struct agent_reply result = fm->shared->job[m - fm->mount];

	result.text[sizeof(result.text) - 1] = '\0';
	if (m->forced)
		result = reply_of(-ETIMEDOUT, "the mount's server does not answer");
	if (m->state == FS_DETACHING) {
		if (result.status != 0)
			log_warn("mount %u: %s", m->id, result.text);
		return close_mount(fm, m);
	}
	if (result.status != 0 || m->unmount_stream)
		return begin_detach(fm, m, &result);
	if (m->state == FS_LAYERING)
		return begin_attach(fm, m);
	enter(m, FS_LIVE, -1);
	answer(fm, &m->stream, &result);
}

static void relay_done(struct fs_mounts *fm, struct fs_mount *m)
{
	m->relay_done = false;
	if (m->state == FS_CLOSING)
		return end(fm, m);
	if (m->result.status != 0)
		return begin_detach(fm, m, &m->result);
	if (m->mode != AGENT_MOUNT_COW)
		return begin_attach(fm, m);
	enter(m, FS_LAYERING, FS_JOB_MS);
	start_job(fm, m, NULL, 0);
	if (m->job == 0)
		job_done(fm, m);
}

void fs_mounts_relay_lost(struct fs_mounts *fm)
{
	for (size_t i = 0; i < RELAY_MOUNTS_MAX; i++) {
		struct fs_mount *m = &fm->mount[i];

		if (m->state != FS_CLOSING && m->state != FS_OPENING)
			continue;
		m->relay_done = true;
		m->result = reply_of(-EIO, "the guest's relay for mounts has ended");
	}
}

bool fs_mounts_reaped(struct fs_mounts *fm, pid_t pid, int status)
{
	(void)status;
	for (size_t i = 0; i < RELAY_MOUNTS_MAX; i++) {
		struct fs_mount *m = &fm->mount[i];

		if (m->state == FS_FREE || m->job != pid)
			continue;
		m->job = 0;
		job_done(fm, m);
		m->forced = false;
		return true;
	}
	return false;
}

/* Ending the connection makes the job's own waiting end; a signal alone would not. */
static void force_job(struct fs_mounts *fm, struct fs_mount *m)
{
	struct relay_message ask = {.op = RELAY_UNMOUNT, .id = m->id};

	m->forced = true;
	m->deadline_ms = -1;
	(void)relay_send(fm->relay, &ask);
	(void)kill(m->job, SIGKILL);
}

static void step_mount(struct fs_mounts *fm, struct fs_mount *m)
{
	static pid_t inits[FS_CONTAINERS_MAX];
	bool late = clock_left_ms(m->deadline_ms) == 0, starting = false;
	struct agent_reply why = reply_of(-ETIMEDOUT, "the mount's server does not answer");

	if (m->relay_done) {
		relay_done(fm, m);
	} else if (m->job > 0) {
		if (late)
			force_job(fm, m);
	} else if (m->state == FS_OPENING && late) {
		begin_detach(fm, m, &why);
	} else if (m->state == FS_ATTACHING || m->state == FS_DETACHING) {
		size_t n = fm->containers(
			fm->containers_ctx, m->serial, inits, FS_CONTAINERS_MAX, &starting);
		if (starting && !late)
			return;
		start_job(fm, m, inits, n);
		if (m->job == 0)
			job_done(fm, m);
	}
}

int fs_mounts_step(struct fs_mounts *fm)
{
	int progress = 0;

	for (size_t i = 0; i < RELAY_MOUNTS_MAX; i++) {
		struct fs_mount *m = &fm->mount[i];
		enum fs_state before = m->state;

		if (before != FS_FREE)
			step_mount(fm, m);
		progress |= m->state != before;
	}
	return progress;
}

int64_t fs_mounts_deadline_ms(const struct fs_mounts *fm)
{
	int64_t first = -1;

	for (size_t i = 0; i < RELAY_MOUNTS_MAX; i++) {
		const struct fs_mount *m = &fm->mount[i];

		if (m->state != FS_FREE && m->deadline_ms >= 0 &&
			(first < 0 || m->deadline_ms < first))
			first = m->deadline_ms;
	}
	return first;
}

void fs_mounts_new_epoch(struct fs_mounts *fm)
{
	for (size_t i = 0; i < RELAY_MOUNTS_MAX; i++) {
		struct fs_mount *m = &fm->mount[i];

		m->stream = m->unmount_stream = 0;
		fm->shared->owner[i].known = false;
		if (m->state == FS_OPENING)
			m->deadline_ms = clock_mono_ms() + FS_INIT_MS;
	}
}

void fs_mounts_close(struct fs_mounts *fm)
{
	struct agent_reply why = reply_of(-ESHUTDOWN, "the sandbox is shutting down");

	for (size_t i = 0; i < RELAY_MOUNTS_MAX; i++) {
		struct fs_mount *m = &fm->mount[i];

		if (m->state != FS_FREE && m->state < FS_DETACHING && m->job == 0)
			begin_detach(fm, m, &why);
	}
}

bool fs_mounts_any(const struct fs_mounts *fm)
{
	for (size_t i = 0; i < RELAY_MOUNTS_MAX; i++)
		if (fm->mount[i].state != FS_FREE)
			return true;
	return false;
}
