/* SPDX-License-Identifier: Apache-2.0 */
#include "tar-writer.h"

#include "../../base/space.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK (256 * 1024)

struct tar_writer {
	struct archive *archive;
	int fd;
	int errnum; /* of the write that failed */
	uint64_t written;
	bool dropped; /* nothing more is written */
};

static la_ssize_t write_some(struct archive *a, void *ctx, const void *data, size_t len)
{
	struct tar_writer *w = ctx;

	if (w->dropped)
		return -1;
	for (;;) {
		ssize_t n = write(w->fd, data, len);
		if (n >= 0) {
			w->written += (uint64_t)n;
			return n;
		}
		if (errno == EAGAIN) {
			struct pollfd p = {.fd = w->fd, .events = POLLOUT};
			(void)poll(&p, 1, -1);
		} else if (errno != EINTR) {
			w->errnum = errno;
			archive_set_error(a, errno, "write");
			return -1;
		}
	}
}

static int failed(struct tar_writer *w, struct err *e)
{
	int errnum = w->errnum;

	if (errnum == ENOSPC || errnum == EDQUOT)
		return space_error(w->fd, "the archive", 0, e);
	if (errnum == EPIPE)
		return err_set(e, ERR_CANCELLED, EPIPE, "nobody reads the archive any more");
	if (errnum)
		return err_errno(e, errnum, "cannot write the archive");
	return err_set(e, ERR_INTERNAL, 0, "cannot write the archive: %.200s",
		archive_error_string(w->archive) ? archive_error_string(w->archive) : "?");
}

int tar_writer_new(int fd, struct tar_writer **ret, struct err *e)
{
	cleanup_tar_writer struct tar_writer *w = calloc(1, sizeof(*w));
	struct archive *a = w ? archive_write_new() : NULL;

	if (!a)
		return err_errno(e, ENOMEM, "cannot write the archive");
	w->archive = a;
	w->fd = fd;
	if (archive_write_set_format_pax_restricted(a) != ARCHIVE_OK ||
		archive_write_set_bytes_per_block(a, BLOCK) != ARCHIVE_OK ||
		archive_write_set_bytes_in_last_block(a, 1) != ARCHIVE_OK ||
		archive_write_open(a, w, NULL, write_some, NULL) != ARCHIVE_OK)
		return failed(w, e);
	*ret = w;
	w = NULL;
	return 0;
}

void tar_writer_freep(struct tar_writer **w)
{
	if (*w) {
		(*w)->dropped = true; /* it would write the end */
		(void)archive_write_free((*w)->archive);
	}
	free(*w);
	*w = NULL;
}

static int put_header(struct tar_writer *w, const char *name, unsigned type, unsigned mode,
	uint64_t size, struct err *e)
{
	struct archive_entry *ae = archive_entry_new();

	if (!ae)
		return err_errno(e, ENOMEM, "cannot write the archive");
	archive_entry_set_pathname(ae, name);
	archive_entry_set_filetype(ae, type);
	archive_entry_set_perm(ae, mode);
	archive_entry_set_size(ae, (int64_t)size);
	archive_entry_set_uid(ae, 0);
	archive_entry_set_gid(ae, 0);
	archive_entry_set_mtime(ae, 0, 0);
	int r = archive_write_header(w->archive, ae);
	archive_entry_free(ae);
	return r == ARCHIVE_OK ? 0 : failed(w, e);
}

int tar_writer_folder(struct tar_writer *w, const char *name, struct err *e)
{
	return put_header(w, name, AE_IFDIR, 0755, 0, e);
}

int tar_writer_file(struct tar_writer *w, const char *name, uint64_t size, struct err *e)
{
	return put_header(w, name, AE_IFREG, 0644, size, e);
}

int tar_writer_data(struct tar_writer *w, const void *data, size_t len, struct err *e)
{
	return archive_write_data(w->archive, data, len) == (la_ssize_t)len ? 0 : failed(w, e);
}

int tar_writer_end(struct tar_writer *w, uint64_t *ret_bytes, struct err *e)
{
	if (archive_write_close(w->archive) != ARCHIVE_OK)
		return failed(w, e);
	*ret_bytes = w->written;
	return 0;
}
