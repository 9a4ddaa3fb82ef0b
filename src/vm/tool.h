/* SPDX-License-Identifier: Apache-2.0 */
/* Running qemu-img and mke2fs: descriptors in, their own words in the error. */
#ifndef KOSA8_VM_TOOL_H
#define KOSA8_VM_TOOL_H

#include "../base/buf.h"

/* The descriptor of the child that a file given to tool_run() has. */
#define TOOL_FILE "/proc/self/fd/3"
#define TOOL_DEADLINE_MS 120000

/* Runs argv with envp (NULL: the caller's); fd (-1: none) is descriptor 3 of it. `what` begins the
 * error: "cannot make a disk layer". */
int tool_run(
	char *const *argv, char *const *envp, int fd, const char *what, struct err *e) must_check;

#endif
