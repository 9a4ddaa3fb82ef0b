/* SPDX-License-Identifier: Apache-2.0 */
#include "tree-tar.h"

#include "../../base/fd.h"
#include "../../proto/tree-stream.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (64u * 1024)
#define MEMBER_SIZE (2 * TREE_PATH_MAX)

struct writer {
	struct archive *archive;
	struct archive_entry *entry;
	const char *name;
	int fd;
	int errnum; /* of the write that failed */
	bool dropped;
};

static la_ssize_t write_some(struct archive *a, void *ctx, const void *data, size_t len)
{
	struct writer *w = ctx;
	int r = w->dropped ? -ECANCELED : fd_write_all(w->fd, data, len);

	if (r == 0)
		return (la_ssize_t)len;
	w->errnum = -r;
	archive_set_error(a, -r, "write");
	return -1;
}

static int failed(struct writer *w, struct err *e)
{
	const char *text = archive_error_string(w->archive);

	if (w->errnum == EPIPE)
		return err_set(e, ERR_CANCELLED, EPIPE, "nobody reads the tar any more");
	if (w->errnum)
		return err_errno(e, w->errnum, "cannot write the tar");
	return err_set(e, ERR_INTERNAL, 0, "cannot write the tar: %.200s", text ? text : "?");
}

/* A warning is about a name that is no text, which is written as it is. */
static bool is_fine(int status)
{
	return status == ARCHIVE_OK || status == ARCHIVE_WARN;
}

static void member(const struct writer *w, const char *path, char ret[static MEMBER_SIZE])
{
	(void)snprintf(ret, MEMBER_SIZE, "%s%s%s", w->name, *path ? "/" : "", path);
}

static void fill(struct writer *w, const struct tree_entry *m)
{
	char name[MEMBER_SIZE], target[MEMBER_SIZE];
	unsigned type = AE_IFREG;

	(void)archive_entry_clear(w->entry);
	member(w, m->path, name);
	archive_entry_set_pathname(w->entry, name);
	if (m->type == TREE_DIR)
		type = AE_IFDIR;
	if (m->type == TREE_SYMLINK) {
		type = AE_IFLNK;
		archive_entry_set_symlink(w->entry, m->target);
	}
	archive_entry_set_filetype(w->entry, type);
	archive_entry_set_perm(w->entry, (__LA_MODE_T)(m->mode & 07777));
	archive_entry_set_uid(w->entry, m->uid);
	archive_entry_set_gid(w->entry, m->gid);
	struct timespec mtime = tree_timespec(m->mtime_ns);
	archive_entry_set_mtime(w->entry, mtime.tv_sec, mtime.tv_nsec);
	archive_entry_set_size(w->entry, m->type == TREE_FILE ? (int64_t)m->size : 0);
	if (m->type == TREE_HARDLINK) {
		member(w, m->target, target);
		archive_entry_set_hardlink(w->entry, target);
	}
}

static int put_entry(void *ctx, const struct tree_entry *m, struct err *e)
{
	struct writer *w = ctx;

	switch (m->type) {
	case TREE_SKIPPED:
		return 0;
	case TREE_FILE:
	case TREE_DIR:
	case TREE_SYMLINK:
	case TREE_HARDLINK:
		break;
	case TREE_WHITEOUT:
	case TREE_OPAQUE:
	case TREE_END:
	case TREE_TYPE_END:
		return err_set(e, ERR_PROTOCOL, 0, "an entry that no tar can have");
	}
	if (m->size > INT64_MAX)
		return err_set(e, ERR_PROTOCOL, 0, "a file that is larger than any can be");
	fill(w, m);
	return is_fine(archive_write_header(w->archive, w->entry)) ? 0 : failed(w, e);
}

static int put_data(void *ctx, const void *data, size_t len, struct err *e)
{
	struct writer *w = ctx;

	return archive_write_data(w->archive, data, len) == (la_ssize_t)len ? 0 : failed(w, e);
}

static int put_file_end(void *ctx, struct err *e)
{
	struct writer *w = ctx;

	return is_fine(archive_write_finish_entry(w->archive)) ? 0 : failed(w, e);
}

static int put_end(void *ctx, struct err *e)
{
	struct writer *w = ctx;

	return archive_write_close(w->archive) == ARCHIVE_OK ? 0 : failed(w, e);
}

static int begin(struct writer *w, struct err *e)
{
	w->archive = archive_write_new();
	w->entry = archive_entry_new();
	if (!w->archive || !w->entry)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	if (archive_write_set_format_pax_restricted(w->archive) != ARCHIVE_OK ||
		archive_write_set_bytes_in_last_block(w->archive, 1) != ARCHIVE_OK ||
		archive_write_open(w->archive, w, NULL, write_some, NULL) != ARCHIVE_OK)
		return failed(w, e);
	return 0;
}

static int convert(int in, struct tree_stream *s, struct err *e)
{
	static unsigned char chunk[CHUNK];

	while (!s->ended) {
		ssize_t n = read(in, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(e, errno, "cannot read the tree");
		if (n == 0)
			return err_set(e, ERR_CANCELLED, 0, "the tree ended too early");
		int r = tree_stream_put(s, chunk, (size_t)n, e);
		if (r < 0)
			return r;
	}
	return 0;
}

int tree_to_tar(int in, int out, const char *name, struct err *e)
{
	struct writer w = {.name = name, .fd = out};
	const struct tree_sink sink = {.entry = put_entry,
		.data = put_data,
		.file_end = put_file_end,
		.end = put_end,
		.ctx = &w};
	struct tree_stream *s = calloc(1, sizeof(*s));
	int r = s ? begin(&w, e) : err_set(e, ERR_IO, ENOMEM, "out of memory");

	if (r == 0) {
		tree_stream_init(s, &sink);
		r = convert(in, s, e);
		tree_stream_release(s);
	}
	w.dropped = r < 0; /* it would write the end of a tar that is none */
	if (w.archive)
		(void)archive_write_free(w.archive);
	archive_entry_free(w.entry);
	free(s);
	return r;
}
