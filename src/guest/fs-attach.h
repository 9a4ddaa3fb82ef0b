/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a mount seen in a container, and taking it out again. Paths are the container's own and
 * hostile: they are resolved in its root, and what is found must be a folder of its own files, not
 * of /proc, /sys or /dev, wherever links lead.
 */
#ifndef KOSA8_GUEST_FS_ATTACH_H
#define KOSA8_GUEST_FS_ATTACH_H

#include "../base/err.h"

#include <stdbool.h>
#include <sys/types.h>

/* Absolute, none of its parts empty, "." or "..", not "/", not in /proc, /sys, /dev. */
int fs_path_check(const char *path, struct err *e) must_check;
/* A clone of the mount at dir that is attached nowhere yet. Its descriptor. */
int fs_tree_open(const char *dir, bool read_only, struct err *e) must_check;
/* Attaches it in the caller's root; a mount point that is missing is made. */
int fs_tree_attach(int tree, const char *path, struct err *e) must_check;

/* In a process of one thread that ends afterwards: it is left in the namespace of the container
 * that was last. The containers are given by their first processes; one that has ended meanwhile is
 * passed over. */
int fs_attach_to(const pid_t *inits, size_t n, const char *dir, bool read_only, const char *path,
	struct err *e) must_check;
/* Detaches all that is mounted from this device (mountinfo.h). */
int fs_detach_from(const pid_t *inits, size_t n, const char *device, struct err *e) must_check;

#endif
