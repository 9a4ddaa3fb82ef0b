/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kosa8-fs leaves itself before it reads the first request: the tree of its root, its socket,
 * inotify. No program, no process, no socket, no other path (Landlock, seccomp); no capabilities
 * but those by which root may pass the modes of files.
 */
#ifndef KOSA8_FS_CONFINE_H
#define KOSA8_FS_CONFINE_H

#include "../base/err.h"

#include <stdbool.h>

int confine_fs(int root_fd, bool read_only, struct err *e) must_check;

#endif
