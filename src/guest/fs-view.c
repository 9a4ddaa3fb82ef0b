/* SPDX-License-Identifier: Apache-2.0 */
#include "fs-view.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/log.h"
#include "fs-attach.h"
#include "fs-calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct seen {
	const struct fs_mount *mount;
	size_t slot;
	int tree;
	int calls;	 /* fs_calls_open() */
	int answer;	 /* the socket on which its server's answer comes; -1: none is asked */
	uint32_t ticket; /* of what it is asked */
} view[RELAY_MOUNTS_MAX];
static size_t view_len;
static struct fs_owner *owners;

/* A folder comes before what is in it. */
static int by_path(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	return strcmp(x->mount->path, y->mount->path);
}

int fs_view_open(const struct fs_mounts *fm, struct err *e)
{
	char path[RELAY_PATH_SIZE];

	owners = fm ? fm->shared->owner : NULL;
	for (size_t i = 0; fm && i < RELAY_MOUNTS_MAX; i++) {
		const struct fs_mount *m = &fm->mount[i];
		struct seen *s = &view[view_len];

		if (!m->visible)
			continue;
		s->mount = m;
		s->slot = i;
		s->tree = fs_tree_open(fs_mount_dir(m, path), m->mode == AGENT_MOUNT_RO, e);
		if (s->tree < 0)
			return s->tree;
		s->calls = fs_calls_open(m->id);
		view_len++;
	}
	qsort(view, view_len, sizeof(*view), by_path);
	return 0;
}

int fs_view_attach_below(const char *folder, struct err *e)
{
	size_t len = strlen(folder);

	for (size_t i = 0; i < view_len; i++) {
		const char *path = view[i].mount->path;

		if (strncmp(path, folder, len) != 0 || (path[len] != '/' && path[len] != '\0'))
			continue;
		int r = fs_tree_attach(view[i].tree, path, e);
		if (r < 0)
			return r;
	}
	return 0;
}

int fs_view_attach(struct err *e)
{
	return fs_view_attach_below("", e);
}

/* Several containers may start at once. Whoever finds that nobody came after it notes what the
 * server was told; else it is not known, and the next one tells it again. */
static void ask(struct seen *s, uint32_t uid, uint32_t gid)
{
	struct fs_owner *o = &owners[s->slot];

	s->answer = -1;
	if (s->calls < 0 || (o->known && o->uid == uid && o->gid == gid))
		return;
	o->known = false;
	s->ticket = __atomic_add_fetch(&o->ticket, 1, __ATOMIC_SEQ_CST);
	s->answer = fs_calls_tell(s->calls, uid, gid);
	if (s->answer < 0)
		log_warn("mount %u: whose its files are was not told: %s", s->mount->id,
			strerror(-s->answer));
}

static void note(struct fs_owner *o, uint32_t uid, uint32_t gid)
{
	o->uid = uid;
	o->gid = gid;
	o->known = true;
}

static void take_answer(struct seen *s, uint32_t uid, uint32_t gid, int64_t deadline_ms)
{
	struct fs_owner *o = &owners[s->slot];

	if (s->answer < 0)
		return;
	int r = fs_calls_told(s->answer, deadline_ms);
	(void)fd_close(s->answer);
	if (r < 0 && r != -EOPNOTSUPP)
		log_warn("mount %u: its server was not told whose its files are: %s", s->mount->id,
			strerror(-r));
	else if (__atomic_load_n(&o->ticket, __ATOMIC_SEQ_CST) == s->ticket)
		note(o, uid, gid);
}

void fs_view_tell_owner(uint32_t uid, uint32_t gid)
{
	int64_t deadline_ms = clock_mono_ms() + FS_CALLS_TELL_MS;

	for (size_t i = 0; i < view_len; i++)
		ask(&view[i], uid, gid);
	for (size_t i = 0; i < view_len; i++) {
		take_answer(&view[i], uid, gid, deadline_ms);
		(void)fd_close(view[i].calls);
		(void)fd_close(view[i].tree);
	}
	view_len = 0;
}
