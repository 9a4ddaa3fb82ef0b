/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a cow mount's upper folder would change in the host's folder as it is now. The upper tree is
 * compared while it comes: an entry that is on the host with the same type, permissions, content
 * and target is no change; times and owners do not count. With a folder that goes, or that becomes
 * something else, each entry that the host has below it is a change of its own.
 */
#ifndef KOSA8_CLI_MOUNT_DIFF_H
#define KOSA8_CLI_MOUNT_DIFF_H

#include "copy-session.h"

#include <sys/stat.h>

#define MOUNT_DIFF_MAX 1000000			  /* entries of the upper folder */
#define MOUNT_DIFF_BYTES_MAX (256u * 1024 * 1024) /* of their names */

enum change_kind { CHANGE_NONE, CHANGE_ADDED, CHANGE_CHANGED, CHANGE_REMOVED };

/* What the host had there when it was compared. */
struct host_entry {
	bool there, is_dir;
	uint64_t ino, size;
	struct timespec mtime;
};

struct change {
	char *path;
	char *target; /* of a hard link; else NULL */
	enum change_kind kind;
	enum tree_type type; /* as it is in the sandbox; of what is removed, as it is on the host */
	uint64_t size;
	struct host_entry host;
	bool opaque;   /* a folder that hides the host's */
	bool selected; /* to be applied */
	bool came;     /* while it was applied */
};

struct mount_diff {
	char *guest, *host; /* of the mount */
	uint32_t id;
	int root;	     /* the host's folder */
	struct change *list; /* sorted by path when mount_diff_get() is done; with CHANGE_NONE */
	size_t len, cap, bytes;
	int file; /* on the host, while its content is compared; -1: it differs */
	struct skipped skipped;
};

/* Of the running sandbox's mount at guest. ERR_NOT_FOUND; ERR_INVALID when it is not cow. */
int mount_diff_get(const struct context *c, const struct sandbox *s, const char *guest,
	struct mount_diff *ret, struct copy_io *io, struct err *e) must_check;
void mount_diff_release(struct mount_diff *d);
#define cleanup_mount_diff __attribute__((cleanup(mount_diff_release)))
/* NULL: the upper folder has nothing there. */
struct change *mount_diff_find(const struct mount_diff *d, const char *path);
/* Prints what is selected: on stderr for a question, else on stdout. How many these are. */
size_t mount_diff_print(const struct mount_diff *d, bool question);
json_t *mount_diff_json(const struct mount_diff *d);

/* The tree's side of it (mount-compare.c); ctx is the mount_diff. */
extern const struct tree_sink mount_compare_sink;
/* Once the tree has ended: sorts, and finds what the host has in folders that go or are hidden. */
int mount_compare_end(struct mount_diff *d, struct err *e) must_check;

struct host_entry mount_host_entry(const struct stat *st);

#endif
