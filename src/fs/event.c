/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay's calls go through the guest's VFS, which looks the name up first. So a name that is
 * told as created is not there for the relay's lookup, and one told as deleted is: a ghost, a node
 * without a place, which its unlink then takes away.
 */
#include "event.h"

#include "server.h"

#include "../base/clock.h"
#include "../base/frame.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SLOTS (EVENTS_MAX * 4)
#define SENT_FOR_MS 2000
#define GHOST_DEVICE UINT64_MAX
#define PATH_MAX_BYTES 4095

static uint32_t hash_of(uint64_t folder, const char *name)
{
	uint32_t hash = 2166136261u ^ (uint32_t)folder;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return hash;
}

static struct host_event *find(struct fs *fs, uint64_t folder, const char *name, bool sent)
{
	uint32_t hash = hash_of(folder, name);

	for (size_t i = 0; fs->events.all && i < SLOTS; i++) {
		if (fs->events.hash[i] != hash)
			continue;
		struct host_event *e = &fs->events.all[i];
		if (e->used && (e->sent_ms != 0) == sent && e->folder == folder &&
			strcmp(e->name, name) == 0)
			return e;
	}
	return NULL;
}

static struct host_event *free_slot(struct fs *fs, int64_t now)
{
	size_t waiting = 0;
	struct host_event *ret = NULL;

	for (size_t i = 0; i < SLOTS; i++) {
		struct host_event *e = &fs->events.all[i];
		if (e->used && e->sent_ms && e->sent_ms + SENT_FOR_MS < now)
			e->used = false;
		if (!e->used)
			ret = e;
		else if (!e->sent_ms)
			waiting++;
	}
	return waiting < EVENTS_MAX ? ret : NULL;
}

void event_add(struct fs *fs, const struct node *folder, const char *name, enum fs_event kind,
	uint32_t type)
{
	struct host_events *v = &fs->events;
	int64_t now = clock_mono_ms();

	if (!fs->relay_pid)
		return;
	if (!v->hash)
		v->hash = calloc(SLOTS, sizeof(*v->hash));
	if (v->hash && !v->all)
		v->all = calloc(SLOTS, sizeof(*v->all));
	if (!v->all)
		return;
	struct host_event *e = find(fs, folder->id, name, false);
	bool known = e;
	if (!e && !(e = free_slot(fs, now)))
		return;
	/* A new file that is written to is a new file; but it may be gone again. */
	if (known && kind > FS_EVENT_DELETED && e->kind <= kind)
		return;
	*e = (struct host_event){.folder = folder->id,
		.kind = kind,
		.type = type,
		.used = true,
		.order = ++v->order};
	v->hash[e - v->all] = hash_of(folder->id, name);
	(void)snprintf(e->name, sizeof(e->name), "%s", name);
	if (!v->send_ms)
		v->send_ms = now + EVENTS_MS;
}

/* Below the root, from its end to its begin; NULL: too long or not there. */
static const char *path_of(const struct node *folder, const char *name, char *room, size_t size)
{
	char *at = room + size;
	const char *part = name;

	for (;;) {
		size_t len = strlen(part) + 1;
		if (len > (size_t)(at - room))
			return NULL;
		at -= len;
		memcpy(at, part, len);
		if (part != name)
			at[len - 1] = '/';
		if (folder->id == NODE_ROOT)
			return at;
		part = folder->name;
		folder = folder->parent;
		if (!folder)
			return NULL;
	}
}

static void send(struct fs *fs, const struct host_event *e)
{
	char room[PATH_MAX_BYTES + 1];
	struct node *folder = node_get(&fs->nodes, e->folder);
	const char *path = folder ? path_of(folder, e->name, room, sizeof(room)) : NULL;
	struct {
		struct fuse_out_header h;
		uint64_t folder;
		uint32_t kind, type;
		char path[sizeof(room)];
	} m = {.h = {.error = FS_EVENT}, .folder = e->folder, .kind = e->kind, .type = e->type};

	if (!path)
		return;
	size_t len = strlen(path) + 1;
	memcpy(m.path, path, len);
	m.h.len = (uint32_t)(sizeof(m) - sizeof(m.path) + len);
	/* Somebody may have looked since it was told first. */
	if (e->kind <= FS_EVENT_DELETED)
		notify_entry(fs, e->folder, e->name);
	frame_put(&fs->notices, FS_REPLY, 0, 0, &m, m.h.len);
}

static struct host_event *next_waiting(struct fs *fs)
{
	struct host_event *ret = NULL;

	for (size_t i = 0; i < SLOTS; i++) {
		struct host_event *e = &fs->events.all[i];
		if (e->used && !e->sent_ms && (!ret || e->order < ret->order))
			ret = e;
	}
	return ret;
}

void events_send(struct fs *fs)
{
	int64_t now = clock_mono_ms();
	struct host_event *e;

	if (!fs->events.send_ms || now < fs->events.send_ms)
		return;
	fs->events.send_ms = 0;
	while ((e = next_waiting(fs)) != NULL) {
		struct host_event *before = find(fs, e->folder, e->name, true);
		if (before)
			before->used = false;
		send(fs, e);
		e->sent_ms = now;
	}
}

/* ---- the relay's calls ---- */

static int ghost(struct fs *fs, struct request *q, uint32_t type)
{
	struct identity i = {.dev = GHOST_DEVICE, .ino = ++fs->events.ghosts};
	struct fuse_entry_out out = {0};
	struct node *node;
	uint32_t mode = type ? type : S_IFREG;
	int r = node_insert(&fs->nodes, fs->nodes.next, &i, (uint16_t)mode, &node);

	if (r < 0)
		return r;
	fs->nodes.next++;
	node->lookups = 1;
	out.nodeid = node->id;
	out.attr = (struct fuse_attr){.ino = node->id, .mode = mode | 0600, .nlink = 1};
	memcpy(q->out, &out, sizeof(out));
	return sizeof(out);
}

static int relay_lookup(struct fs *fs, struct request *q)
{
	struct request again = *q;
	const char *name;
	int r = take_name(q, &name);

	if (r < 0)
		return r;
	struct host_event *e = find(fs, q->h.nodeid, name, true);
	if (e && e->kind == FS_EVENT_CREATED)
		return -ENOENT;
	if (e && e->kind == FS_EVENT_DELETED)
		return ghost(fs, q, e->type);
	return op_lookup(fs, &again);
}

static int relay_make(struct fs *fs, struct request *q, size_t skip)
{
	struct fuse_entry_out out;
	const char *name;
	int dir, r;

	if (q->left < skip)
		return -EINVAL;
	q->at += skip;
	q->left -= skip;
	if ((r = take_name(q, &name)) < 0)
		return r;
	struct host_event *e = find(fs, q->h.nodeid, name, true);
	if (!e || e->kind != FS_EVENT_CREATED)
		return -EPERM;
	e->used = false;
	if ((dir = node_any_fd(fs, q->node)) < 0)
		return dir;
	if ((r = entry_of(fs, q->node, dir, name, &out)) < 0)
		return r;
	memcpy(q->out, &out, sizeof(out));
	return sizeof(out);
}

static int relay_remove(struct fs *fs, struct request *q)
{
	const char *name;
	int r = take_name(q, &name);

	if (r < 0)
		return r;
	struct host_event *e = find(fs, q->h.nodeid, name, true);
	if (!e || e->kind != FS_EVENT_DELETED)
		return -EPERM;
	e->used = false;
	return 0;
}

int event_request(struct fs *fs, struct request *q)
{
	switch (q->h.opcode) {
	case FUSE_LOOKUP:
		return relay_lookup(fs, q);
	case FUSE_MKNOD:
		return relay_make(fs, q, sizeof(struct fuse_mknod_in));
	case FUSE_MKDIR:
		return relay_make(fs, q, sizeof(struct fuse_mkdir_in));
	case FUSE_SYMLINK:
		return relay_make(fs, q, 0);
	case FUSE_UNLINK:
	case FUSE_RMDIR:
		return relay_remove(fs, q);
	case FUSE_SETATTR:
		return attr_reply(fs, q, q->node);
	default:
		return -EPERM;
	}
}
