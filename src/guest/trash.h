/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing what a container left, however hostile: a million files, a folder 100,000 levels deep.
 * Work of the keeper, not of the agent. A folder deeper than TRASH_DEPTH is moved to the top of the
 * trash folder and emptied from there, so neither the stack nor the descriptors grow with the
 * depth.
 */
#ifndef KOSA8_GUEST_TRASH_H
#define KOSA8_GUEST_TRASH_H

#include "../base/err.h"

#define TRASH_DEPTH 16

/* Renames dirfd/name into the trash under a free name. */
int trash_take(int trash_fd, int dirfd, const char *name) must_check;
/* Removes all in the trash. Returns when it is empty or an entry cannot be removed. */
int trash_empty(int trash_fd) must_check;

#endif
