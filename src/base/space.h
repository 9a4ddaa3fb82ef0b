/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of a full disk: what was needed, what is free. */
#ifndef KOSA8_BASE_SPACE_H
#define KOSA8_BASE_SPACE_H

#include "err.h"

#include <stdint.h>

/* ERR_NO_SPACE: "no space on the host: WHAT needs about N MB, and M kB is free". needed 0: "WHAT
 * did not fit". fd: anything on the file system in question. Returns the negative errno. */
int space_error(int fd, const char *what, uint64_t needed_bytes, struct err *e);
/* That error, or 0 when so much is free. */
int space_check(int fd, const char *what, uint64_t needed_bytes, struct err *e) must_check;

#endif
