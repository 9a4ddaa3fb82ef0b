/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths of a copy, found below a root folder: every symbolic link, ".." and absolute target is
 * followed as a process would that has this root (openat2(2), RESOLVE_IN_ROOT), and none leads out
 * of it. Links of /proc to a process's files are not followed at all.
 */
#ifndef KOSA8_GUEST_COPY_PATH_H
#define KOSA8_GUEST_COPY_PATH_H

#include "../base/err.h"

#include <stdbool.h>

#define COPY_NAME_SIZE 256

struct copy_root {
	int fd;
	const char *what; /* for people: "container", "workspace" */
};

/* A place: `name` in the folder fd, or for the name "" the folder itself. Owns fd. */
struct copy_place_at {
	int fd;
	bool folder_only; /* it was written with a slash at its end */
	char name[COPY_NAME_SIZE];
};

/* Where path leads; a last symbolic link is not followed. It need not exist, its folder must. */
int copy_find(const struct copy_root *root, const char *path, struct copy_place_at *ret,
	struct err *e) must_check;
/* Where something new goes: all links are followed, also one that leads to nothing yet. A folder
 * comes as itself, with the name "". */
int copy_find_target(const struct copy_root *root, const char *path, struct copy_place_at *ret,
	struct err *e) must_check;

#endif
