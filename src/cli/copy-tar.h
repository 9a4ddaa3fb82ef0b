/* SPDX-License-Identifier: Apache-2.0 */
/* kosa8-tar, a confined process between a copy and a tar on stdin or stdout. */
#ifndef KOSA8_CLI_COPY_TAR_H
#define KOSA8_CLI_COPY_TAR_H

#include "../base/err.h"

#include <sys/types.h>

struct copy_tar {
	pid_t pid; /* 0: none */
	int report;
};

/* stdin as a tar: *ret is where the tree is to be read. */
int copy_tar_read(struct copy_tar *t, int *ret, struct err *e) must_check;
/* A tar to stdout, its members below name: *ret is where the tree is to be written, not blocking.
 */
int copy_tar_write(struct copy_tar *t, const char *name, int *ret, struct err *e) must_check;
/* Waits for it, until the end of stdin; when the copy failed (r, *e) it is ended. Returns r or,
 * when that tells more, what it says; 128 + SIGPIPE when nobody reads stdout any more. Signals that
 * were blocked end this process here. */
int copy_tar_end(struct copy_tar *t, int r, struct err *e) must_check;

#endif
