/* SPDX-License-Identifier: Apache-2.0 */
#include "squash-file.h"

#include "../../base/fd.h"

#include <errno.h>
#include <sqfs/error.h>
#include <unistd.h>

static void destroy(sqfs_object_t *o)
{
	(void)o; /* lives in its owner */
}

static int read_at(sqfs_file_t *base, sqfs_u64 offset, void *buffer, size_t size)
{
	struct squash_file *f = (struct squash_file *)base;
	ssize_t n = fd_pread_full(f->fd, buffer, size, (off_t)offset);

	if (n >= 0 && (size_t)n == size)
		return 0;
	f->errnum = n < 0 ? (int)-n : EIO;
	return n < 0 ? SQFS_ERROR_IO : SQFS_ERROR_OUT_OF_BOUNDS;
}

static int write_at(sqfs_file_t *base, sqfs_u64 offset, const void *buffer, size_t size)
{
	struct squash_file *f = (struct squash_file *)base;
	int r = fd_pwrite_all(f->fd, buffer, size, (off_t)offset);

	if (r < 0) {
		f->errnum = -r;
		return SQFS_ERROR_IO;
	}
	if (offset + size > f->size)
		f->size = offset + size;
	return 0;
}

static sqfs_u64 get_size(const sqfs_file_t *base)
{
	return ((const struct squash_file *)base)->size;
}

static int truncate_to(sqfs_file_t *base, sqfs_u64 size)
{
	struct squash_file *f = (struct squash_file *)base;

	if (ftruncate(f->fd, (off_t)size) < 0) {
		f->errnum = errno;
		return SQFS_ERROR_IO;
	}
	f->size = size;
	return 0;
}

void squash_file_init(struct squash_file *f, int fd)
{
	*f = (struct squash_file){
		.base = {.base = {.destroy = destroy},
			.read_at = read_at,
			.write_at = write_at,
			.get_size = get_size,
			.truncate = truncate_to},
		.fd = fd,
	};
}

int squash_file_err(const struct squash_file *f, int sqfs_error, const char *doing, struct err *e)
{
	switch (sqfs_error) {
	case SQFS_ERROR_IO:
		return err_errno(e, f->errnum > 0 ? f->errnum : EIO, "%s: the output file", doing);
	case SQFS_ERROR_ALLOC:
		return err_set(e, ERR_LIMIT, ENOMEM, "%s: out of memory", doing);
	case SQFS_ERROR_OVERFLOW:
		return err_set(e, ERR_LIMIT, EOVERFLOW, "%s: more than squashfs can hold", doing);
	default:
		return err_set(e, ERR_INTERNAL, 0, "%s: libsquashfs error %d", doing, sqfs_error);
	}
}
