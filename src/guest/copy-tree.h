/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of files to and from streams (proto/tree.h); blocking, in a process of their own. */
#ifndef KOSA8_GUEST_COPY_TREE_H
#define KOSA8_GUEST_COPY_TREE_H

#include "copy-path.h"

#include <stdbool.h>
#include <sys/types.h>

/* Of what path is, which has to exist. */
int copy_out_find(const struct copy_root *root, const char *path, struct copy_place_at *ret,
	struct err *e) must_check;
/* Writes it as a tree. Names that vanish meanwhile are left out; what is below /proc, /sys and
 * their kind is not sent. upper: of an overlay; its whiteouts and opaque folders are told. */
int copy_out_send(const struct copy_place_at *from, bool upper, int fd, struct err *e) must_check;

/* Where a tree goes, by docker's rule: the folder path's new child `name`, or path itself. With
 * contents: the folder itself, which has to exist. */
int copy_in_find(const struct copy_root *root, const char *path, const char *name, bool contents,
	struct copy_place_at *ret, struct err *e) must_check;
/* Reads a tree and makes it there; all that is new belongs to owner. A file gets its name when it
 * is complete; what is there is replaced, but a folder by a folder's content only. */
int copy_in_receive(
	const struct copy_place_at *to, uid_t owner, gid_t group, int fd, struct err *e) must_check;

#endif
