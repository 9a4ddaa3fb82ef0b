/* SPDX-License-Identifier: Apache-2.0 */
/* libsquashfs's file interface over a descriptor, and its errors as ours. */
#ifndef KOSA8_IMAGE_UNPACK_SQUASH_FILE_H
#define KOSA8_IMAGE_UNPACK_SQUASH_FILE_H

#include "../../base/err.h"

#include <sqfs/io.h>

struct squash_file {
	sqfs_file_t base; /* first: libsquashfs passes its address back */
	int fd;		  /* borrowed */
	int errnum;	  /* of the last failed call */
	uint64_t size;
};

void squash_file_init(struct squash_file *f, int fd);
/* Sets *e from a SQFS_ERROR value that a libsquashfs function returned. */
int squash_file_err(const struct squash_file *f, int sqfs_error, const char *doing, struct err *e);

#endif
