/* SPDX-License-Identifier: Apache-2.0 */
/* Layer files as src/vm opens them. */
#ifndef KOSA8_VM_LAYER_FILE_H
#define KOSA8_VM_LAYER_FILE_H

#include "../base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define LAYER_ID_SIZE 25 /* [a-z0-9]{1,24} */

/* The file's name, or ERR_INVALID for what cannot be an id. */
#define LAYER_NAME_SIZE (LAYER_ID_SIZE + 6)
int layer_name(const char *id, char ret[static LAYER_NAME_SIZE], struct err *e) must_check;

/* Opens it and checks that its header names no other file and nothing this kosa8 does not write: a
 * guest that took over its QEMU could have put anything there. ERR_NOT_FOUND, ERR_CORRUPT.
 * size_bytes 0: any. */
int layer_open(int layers_dirfd, const char *id, bool writable, uint64_t size_bytes, int *ret_fd,
	struct err *e) must_check;
/* The checks alone. */
int layer_check(int fd, const char *id, uint64_t size_bytes, struct err *e) must_check;

#endif
