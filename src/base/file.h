/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files and folders, relative to a directory descriptor (AT_FDCWD allowed). Functions return
 * >= 0 or a negative errno. */
#ifndef KOSA8_BASE_FILE_H
#define KOSA8_BASE_FILE_H

#include "buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Appends the file to b; -E2BIG over b's maximum. */
int file_read(int dirfd, const char *name, struct buf *b) must_check;
/* Replaces name by a file with this content: a temporary beside it, then rename. A reader sees the
 * old or the new content, never a part. durable: fsync of file and folder before return. */
int file_write_atomic(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
	bool durable) must_check;
/* Removes name, a file or a folder with all below it, never following a symbolic link; a missing
 * name is no error. Of any depth. */
int file_remove_tree(int dirfd, const char *name) must_check;
/* Makes the folder if it is missing and opens it (O_DIRECTORY). */
int dir_open(int dirfd, const char *name, bool create, mode_t mode) must_check;
int dir_sync(int dirfd) must_check;
/* Exclusive locks on whole files (fcntl(2), open file description locks): a lock goes with the open
 * file description, so a child that inherits the descriptor holds it too, and it ends with the last
 * copy of the descriptor. wait=false gives -EWOULDBLOCK when somebody else holds it. */
int lock_open(int dirfd, const char *name, bool wait) must_check; /* makes the file; returns it */
int lock_take(int fd, bool wait) must_check;			  /* of a file opened for writing */
/* Whether somebody holds it, without taking it: 1 or 0 (also when the file is missing). */
int lock_test(int dirfd, const char *name) must_check;
/* Free bytes for an ordinary user on the file system of this descriptor. */
int file_free_bytes(int fd, uint64_t *ret) must_check;

#endif
