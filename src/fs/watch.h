/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's changes, by inotify(7): a watch for each folder that the guest looked into. What is
 * watched may be kept by the guest for minutes, all else for a second. What this process changes
 * itself is noted with watch_own() first, and its events are not passed on: the guest knows.
 */
#ifndef KOSA8_FS_WATCH_H
#define KOSA8_FS_WATCH_H

#include "../base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WATCH_WAITING 1024 /* a power of two */
#define WATCH_OWN_MAX 8
#define WATCH_SLOTS 16384

struct fs;
struct node;

struct own_change {
	int wd;
	char name[256];
};

struct watches {
	int fd; /* -1: inotify cannot be had */
	bool full;
	struct node **by_wd; /* WATCH_SLOTS chains */
	struct own_change own[WATCH_OWN_MAX];
	size_t own_len;
	int64_t quiet_until_ms;
	size_t waiting[WATCH_WAITING]; /* places in fs->notices */
};

int watches_init(struct watches *w) must_check;
void watches_release(struct watches *w);
/* From the next change on. */
void watch_folder(struct fs *fs, struct node *folder, int fd);
void watch_drop(struct fs *fs, struct node *folder);
/* This request changes that name in that folder ("": the folder itself), if it is watched. */
void watch_own(struct fs *fs, const struct node *folder, const char *name);
/* The node under its name, and itself when it is a folder. */
void watch_own_node(struct fs *fs, const struct node *node);
/* Reads what has come; own: of the request just done too. */
void watch_read(struct fs *fs);

/* How long the guest may keep a name in this folder; the attributes of this node. */
uint64_t watch_entry_s(const struct fs *fs, const struct node *folder);
uint64_t watch_attr_s(const struct fs *fs, const struct node *node, uint32_t links);

/* Tells the guest to forget. */
void notify_inode(struct fs *fs, uint64_t id, bool data);
void notify_entry(struct fs *fs, uint64_t folder, const char *name);
void notify_all(struct fs *fs);

#endif
