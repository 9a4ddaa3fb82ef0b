/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing what a container left, however hostile: a million files, a folder 100,000 levels deep.
 * The agent itself removes only small trees; the rest is renamed into the trash folder and emptied
 * by a child process, one level at a time: a folder inside a folder is first moved to the top of
 * the trash, so neither the stack nor the descriptors grow with the depth.
 */
#ifndef KOSA8_GUEST_TRASH_H
#define KOSA8_GUEST_TRASH_H

#include "../base/err.h"

#include <stdbool.h>
#include <sys/types.h>

/* Renames dirfd/name into the trash under a free name. */
int trash_take(int trash_fd, int dirfd, const char *name) must_check;
/* Removes a tree of at most *budget entries, a few levels and small files; -EBUSY when it is more
 * (a part is removed then). */
int trash_remove_quick(int dirfd, const char *name, unsigned *budget) must_check;
/* Removes all in the trash. Returns when it is empty or an entry cannot be removed. */
int trash_empty(int trash_fd) must_check;

/* The background child: at most one at a time. */
struct trash_child {
	pid_t pid;   /* 0: none */
	bool wanted; /* something came in since it was started */
};
/* Starts it if it is wanted and not running. */
void trash_child_step(struct trash_child *t, int trash_fd);
/* True when this was the child's pid. */
bool trash_child_reaped(struct trash_child *t, pid_t pid);
void trash_child_kill(struct trash_child *t);

#endif
