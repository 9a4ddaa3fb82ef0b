/* SPDX-License-Identifier: Apache-2.0 */
/* A tar (ustar, with pax headers only for what ustar cannot say) written to a descriptor. Owner,
 * mode and time are the same for all: equal members in equal order give equal bytes. */
#ifndef KOSA8_IMAGE_ARCHIVE_TAR_WRITER_H
#define KOSA8_IMAGE_ARCHIVE_TAR_WRITER_H

#include "../../base/err.h"

#include <stddef.h>
#include <stdint.h>

struct tar_writer;

/* fd is borrowed; it may be a pipe, also a non-blocking one. */
int tar_writer_new(int fd, struct tar_writer **ret, struct err *e) must_check;
/* Drops an unfinished one without writing. */
void tar_writer_freep(struct tar_writer **w);
#define cleanup_tar_writer __attribute__((cleanup(tar_writer_freep)))

int tar_writer_folder(struct tar_writer *w, const char *name, struct err *e) must_check;
/* A file of that size; its data follows, no more and no less. */
int tar_writer_file(
	struct tar_writer *w, const char *name, uint64_t size, struct err *e) must_check;
int tar_writer_data(struct tar_writer *w, const void *data, size_t len, struct err *e) must_check;
/* Ends the tar; *ret_bytes is all that was written. */
int tar_writer_end(struct tar_writer *w, uint64_t *ret_bytes, struct err *e) must_check;

#endif
