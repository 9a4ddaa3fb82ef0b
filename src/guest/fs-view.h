/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mounts as a new container sees them: opened while the agent's root is still there, attached
 * in the mount stage, and told who will use them before the program starts. All in the container's
 * init, one container a process.
 */
#ifndef KOSA8_GUEST_FS_VIEW_H
#define KOSA8_GUEST_FS_VIEW_H

#include "fs-mounts.h"

/* Before pivot_root. NULL: no mounts. */
int fs_view_open(const struct fs_mounts *fm, struct err *e) must_check;
/* In the container's root. */
int fs_view_attach(struct err *e) must_check;
/* Only those at or below this folder. */
int fs_view_attach_below(const char *folder, struct err *e) must_check;
/* The server of each mount is told the user that is to own what the host's caller owns, unless it
 * was told the same before. One that does not answer within FS_CALLS_TELL_MS is left alone: the
 * container starts, and the next one tells it again. Needs the container's /proc; closes all. In a
 * process that opened none (of an exec) there is nothing to do. */
void fs_view_tell_owner(uint32_t uid, uint32_t gid);

#endif
