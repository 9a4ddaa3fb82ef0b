/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event is put into inotify's queue before the system call that causes it returns. So what this
 * process causes itself is in the queue when its operation is done, and is taken out there
 * (watch_read() at the end of each request that noted a change).
 */
#include "watch.h"

#include "server.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define EVENTS                                                                         \
	(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MODIFY | IN_ATTRIB | \
		IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)
#define WATCHED_S 300
#define UNWATCHED_S 1
/* A host that changes things all the time is read in pieces. */
#define QUIET_MS 20
/* Of these the guest is told; beyond them it keeps what it has for as long as it was allowed to. */
#define ALL_MAX 200000
/* At once: a guest that waits for an answer waits for this, too. What is not read then is read
 * later, or lost, which inotify tells. */
#define READ_MS 4

int watches_init(struct watches *w)
{
	*w = (struct watches){.fd = -1, .by_wd = calloc(WATCH_SLOTS, sizeof(struct node *))};
	if (!w->by_wd)
		return -ENOMEM;
	w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	return w->fd < 0 ? -errno : 0;
}

void watches_release(struct watches *w)
{
	w->fd = fd_close(w->fd);
	free(w->by_wd);
	w->by_wd = NULL;
}

static struct node **slot_of(const struct watches *w, int wd)
{
	return &w->by_wd[(unsigned)wd % WATCH_SLOTS];
}

static struct node *watched(const struct watches *w, int wd)
{
	struct node *node = wd < 0 ? NULL : *slot_of(w, wd);

	while (node && node->wd != wd)
		node = node->next_watched;
	return node;
}

static void remember(struct watches *w, int wd, struct node *node)
{
	/* One folder, seen as another node before: the host put it in another's place. */
	if (watched(w, wd))
		return;
	node->wd = wd;
	node->next_watched = *slot_of(w, wd);
	*slot_of(w, wd) = node;
}

static void forget(struct watches *w, struct node *node)
{
	struct node **at = slot_of(w, node->wd);

	while (*at != node)
		at = &(*at)->next_watched;
	*at = node->next_watched;
	node->wd = -1;
	w->full = false;
}

void watch_folder(struct fs *fs, struct node *folder, int fd)
{
	struct watches *w = &fs->watches;
	char path[32];

	if (folder->wd >= 0 || w->fd < 0 || w->full)
		return;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int wd = inotify_add_watch(w->fd, path, EVENTS);
	if (wd < 0) {
		w->full = errno == ENOSPC;
		return;
	}
	remember(w, wd, folder);
}

void watch_drop(struct fs *fs, struct node *folder)
{
	if (folder->wd < 0)
		return;
	(void)inotify_rm_watch(fs->watches.fd, folder->wd);
	forget(&fs->watches, folder);
}

void watch_own(struct fs *fs, const struct node *folder, const char *name)
{
	struct watches *w = &fs->watches;

	if (folder->wd < 0 || w->own_len == WATCH_OWN_MAX)
		return;
	struct own_change *own = &w->own[w->own_len++];
	own->wd = folder->wd;
	(void)snprintf(own->name, sizeof(own->name), "%s", name);
}

void watch_own_node(struct fs *fs, const struct node *node)
{
	if (node->parent)
		watch_own(fs, node->parent, node->name);
	watch_own(fs, node, "");
}

uint64_t watch_entry_s(const struct fs *fs, const struct node *folder)
{
	(void)fs;
	return folder->wd >= 0 ? WATCHED_S : UNWATCHED_S;
}

uint64_t watch_attr_s(const struct fs *fs, const struct node *node, uint32_t links)
{
	(void)fs;
	/* What is in a folder changes its times; and a file with more names may be changed under
	 * one that is not watched. */
	if (node->type == S_IFDIR)
		return node->wd >= 0 ? WATCHED_S : UNWATCHED_S;
	return links == 1 && node->parent && node->parent->wd >= 0 ? WATCHED_S : UNWATCHED_S;
}

/* ---- notices ---- */

/* True when the very same waits to be sent: a host that changes one name again and again must not
 * hold up the guest's answers. */
static bool waits_already(struct fs *fs, const unsigned char *m, size_t len)
{
	const struct buf *b = &fs->notices;
	uint64_t hash = 14695981039346656037u;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ m[i]) * 1099511628211u;
	size_t *at = &fs->watches.waiting[hash >> 32 & (WATCH_WAITING - 1)];
	/* Of a buffer that was sent since, nothing is equal by chance: names hold no NUL. */
	if (!buf_failed(b) && *at > 0 && *at + len <= b->len && memcmp(b->data + *at, m, len) == 0)
		return true;
	*at = b->len + FRAME_HEADER_SIZE;
	return false;
}

static void notice(struct fs *fs, int code, const void *head, size_t head_len, const char *name)
{
	unsigned char m[sizeof(struct fuse_out_header) + 64 + NODE_NAME_MAX + 1];
	size_t name_len = name ? strlen(name) + 1 : 0;
	struct fuse_out_header h = {.error = code};

	h.len = (uint32_t)(sizeof(h) + head_len + name_len);
	memcpy(m, &h, sizeof(h));
	memcpy(m + sizeof(h), head, head_len);
	if (name)
		memcpy(m + sizeof(h) + head_len, name, name_len);
	if (!waits_already(fs, m, h.len))
		frame_put(&fs->notices, FS_REPLY, 0, 0, m, h.len);
}

void notify_inode(struct fs *fs, uint64_t id, bool data)
{
	struct fuse_notify_inval_inode_out out = {.ino = id, .off = data ? 0 : -1};

	notice(fs, FUSE_NOTIFY_INVAL_INODE, &out, sizeof(out), NULL);
}

void notify_entry(struct fs *fs, uint64_t folder, const char *name)
{
	struct fuse_notify_inval_entry_out out = {
		.parent = folder, .namelen = (uint32_t)strlen(name)};

	notice(fs, FUSE_NOTIFY_INVAL_ENTRY, &out, sizeof(out), name);
}

/* All that the guest knows may be out of date. */
void notify_all(struct fs *fs)
{
	size_t sent = 0;

	for (size_t i = 0; i < fs->nodes.slots && sent < ALL_MAX; i++) {
		for (struct node *n = fs->nodes.by_id[i]; n; n = n->next_id, sent++) {
			if (n->parent)
				notify_entry(fs, n->parent->id, n->name);
			notify_inode(fs, n->id, true);
		}
	}
}

/* ---- events ---- */

static bool is_own(const struct watches *w, const struct inotify_event *e)
{
	for (size_t i = 0; i < w->own_len; i++)
		if (w->own[i].wd == e->wd && strcmp(w->own[i].name, e->len ? e->name : "") == 0)
			return true;
	return false;
}

static struct node *node_named(struct fs *fs, struct node *folder, const char *name)
{
	struct statx x;
	int fd = node_fd(&fs->nodes, folder);

	if (fd < 0 || statx(fd, name, AT_SYMLINK_NOFOLLOW, NODE_STATX, &x) < 0)
		return NULL;
	struct identity i = identity_of(&x);
	return node_find(&fs->nodes, &i);
}

/* A name that came or went. */
static void tell_name(struct fs *fs, struct node *folder, const struct inotify_event *e)
{
	uint32_t type = e->mask & IN_ISDIR ? S_IFDIR : S_IFREG;
	int fd = node_fd(&fs->nodes, folder);
	struct statx x;

	if (e->mask & (IN_DELETE | IN_MOVED_FROM))
		event_add(fs, folder, e->name, FS_EVENT_DELETED, type);
	else if (fd >= 0 && statx(fd, e->name, AT_SYMLINK_NOFOLLOW, NODE_STATX, &x) == 0)
		event_add(fs, folder, e->name, FS_EVENT_CREATED, x.stx_mode & S_IFMT);
}

static void pass_on(struct fs *fs, struct node *folder, const struct inotify_event *e)
{
	const char *name = e->len ? e->name : "";
	struct node *node;

	if (!name[0]) {
		notify_inode(fs, folder->id, false);
		if (e->mask & (IN_MOVE_SELF | IN_DELETE_SELF))
			node_fd_forget(&fs->nodes, folder);
		return;
	}
	if (e->mask & (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)) {
		notify_entry(fs, folder->id, name);
		notify_inode(fs, folder->id, true);
		tell_name(fs, folder, e);
	} else if ((node = node_named(fs, folder, name)) != NULL) {
		notify_inode(fs, node->id, e->mask & IN_MODIFY);
		event_add(fs, folder, name,
			e->mask & IN_MODIFY ? FS_EVENT_MODIFIED : FS_EVENT_ATTRIB, node->type);
	}
}

static void event(struct fs *fs, const struct inotify_event *e)
{
	struct watches *w = &fs->watches;

	if (e->mask & IN_Q_OVERFLOW) {
		notify_all(fs);
		return;
	}
	struct node *folder = watched(w, e->wd);
	if (!folder)
		return;
	if (e->mask & IN_IGNORED) {
		forget(w, folder);
		notify_inode(fs, folder->id, true);
		return;
	}
	if (is_own(w, e))
		return;
	w->quiet_until_ms = clock_mono_ms() + QUIET_MS;
	pass_on(fs, folder, e);
}

void watch_read(struct fs *fs)
{
	_Alignas(struct inotify_event) char b[4096];
	struct watches *w = &fs->watches;
	int64_t end = clock_mono_ms() + READ_MS;
	ssize_t n;

	while (w->fd >= 0 && (n = read(w->fd, b, sizeof(b))) > 0) {
		for (char *at = b; at < b + n;) {
			const struct inotify_event *e = (const void *)at;
			event(fs, e);
			at += sizeof(*e) + e->len;
		}
		if (clock_mono_ms() >= end)
			break;
	}
	w->own_len = 0;
}
