/* SPDX-License-Identifier: Apache-2.0 */
#include "fs-view.h"

#include "../base/fd.h"
#include "fs-attach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

static struct seen {
	const struct fs_mount *mount;
	size_t slot;
	int tree;
	int base; /* the root of the FUSE file system, also where an overlay is on it */
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
		relay_path(m->id, "fs", path);
		s->base = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (s->base < 0)
			return err_errno(e, errno, "%s", path);
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
static void tell(struct fs_owner *o, int base, uint32_t uid, uint32_t gid)
{
	char name[32], value[32];

	if (o->known && o->uid == uid && o->gid == gid)
		return;
	o->known = false;
	uint32_t ticket = __atomic_add_fetch(&o->ticket, 1, __ATOMIC_SEQ_CST);
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", base);
	int n = snprintf(value, sizeof(value), "%u:%u", uid, gid);
	if (setxattr(name, "trusted.kosa8.owner", value, (size_t)n, 0) < 0 && errno != EOPNOTSUPP)
		return;
	if (__atomic_load_n(&o->ticket, __ATOMIC_SEQ_CST) != ticket)
		return;
	o->uid = uid;
	o->gid = gid;
	o->known = true;
}

void fs_view_tell_owner(uint32_t uid, uint32_t gid)
{
	for (size_t i = 0; i < view_len; i++) {
		tell(&owners[view[i].slot], view[i].base, uid, gid);
		(void)fd_close(view[i].base);
		(void)fd_close(view[i].tree);
	}
	view_len = 0;
}
