/* SPDX-License-Identifier: Apache-2.0 */
/* As in unpack/tar.c, libarchive works in the C locale, where it leaves names as they are. */
#include "tree-tar.h"

#include "../../base/fd.h"
#include "../../base/text.h"
#include "../../proto/tree.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <search.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (64u * 1024)
#define MADE_MODE 0755 /* of a folder that only the names below it tell of */
#define SHOWN_SIZE 100

struct reader {
	struct archive *archive;
	struct archive_entry *entry;
	int in, out;
	int errnum;    /* of the read that failed */
	bool any;      /* bytes came */
	void *folders; /* paths of those that were sent: tsearch(3) */
	struct buf b;
	struct tree_entry m;
	unsigned char chunk[CHUNK];
};

static int out_of_memory(struct err *e)
{
	return err_set(e, ERR_IO, ENOMEM, "out of memory");
}

static la_ssize_t read_some(struct archive *a, void *ctx, const void **ret)
{
	struct reader *t = ctx;
	ssize_t n;

	do
		n = read(t->in, t->chunk, sizeof(t->chunk));
	while (n < 0 && errno == EINTR);
	*ret = t->chunk;
	t->any = t->any || n > 0;
	if (n < 0) {
		t->errnum = errno;
		archive_set_error(a, errno, "read");
	}
	return n;
}

static int failed(const struct reader *t, struct err *e)
{
	const char *text = archive_error_string(t->archive);
	char safe[160];

	if (t->errnum)
		return err_errno(e, t->errnum, "cannot read the tar");
	if (!t->any)
		return err_set(e, ERR_INVALID, 0, "no tar came");
	text_escape(text ? text : "unknown error", safe, sizeof(safe));
	return err_set(e, ERR_CORRUPT, 0, "it is no tar, or a damaged one: %s", safe);
}

/* ---- names ---- */

/* Without what stands for the folder itself. -EINVAL: it leads out of it; -ENAMETOOLONG. */
static int normalise(const char *name, char ret[static TREE_PATH_MAX])
{
	size_t len = 0;

	while (*name) {
		size_t n = strcspn(name, "/");
		bool here = n == 0 || (n == 1 && name[0] == '.');
		if (n == 2 && name[0] == '.' && name[1] == '.')
			return -EINVAL;
		if (!here && (n > 255 || len + n + 2 > TREE_PATH_MAX))
			return -ENAMETOOLONG;
		if (!here) {
			if (len > 0)
				ret[len++] = '/';
			memcpy(ret + len, name, n);
			len += n;
		}
		name += n + (name[n] == '/');
	}
	ret[len] = '\0';
	return 0;
}

static int take_name(const char *name, char ret[static TREE_PATH_MAX], struct err *e)
{
	char safe[SHOWN_SIZE];
	int r = name ? normalise(name, ret) : -EINVAL;

	if (r == 0)
		return 0;
	text_escape(name ? name : "", safe, sizeof(safe));
	if (r == -EINVAL)
		return err_set(e, ERR_INVALID, 0,
			"entry \"%s\" of the tar leads out of the folder it is for", safe);
	return err_set(
		e, ERR_INVALID, ENAMETOOLONG, "entry \"%s\" of the tar has too long a name", safe);
}

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* 1: it is new. */
static int note_folder(struct reader *t, const char *path, struct err *e)
{
	if (tfind(path, &t->folders, compare))
		return 0;
	char *copy = strdup(path);
	if (copy && tsearch(copy, &t->folders, compare))
		return 1;
	free(copy);
	return out_of_memory(e);
}

/* ---- output ---- */

static int flush(struct reader *t, struct err *e)
{
	int r = buf_failed(&t->b) ? -ENOMEM : fd_write_all(t->out, t->b.data, t->b.len);

	buf_reset(&t->b);
	if (r == -EPIPE)
		return err_set(e, ERR_CANCELLED, EPIPE, "the copy has ended");
	return r < 0 ? err_errno(e, -r, "cannot write the tree") : 0;
}

static int put(struct reader *t, const struct tree_entry *m, struct err *e)
{
	tree_entry_encode(&t->b, m);
	return t->b.len >= CHUNK ? flush(t, e) : 0;
}

static int put_bytes(struct reader *t, const void *data, size_t len, struct err *e)
{
	buf_put(&t->b, data, len);
	return t->b.len >= CHUNK ? flush(t, e) : 0;
}

static int put_zeros(struct reader *t, uint64_t count, struct err *e)
{
	static const unsigned char zeros[CHUNK];
	int r = 0;

	while (r == 0 && count > 0) {
		size_t n = count < CHUNK ? (size_t)count : CHUNK;
		r = put_bytes(t, zeros, n, e);
		count -= n;
	}
	return r;
}

/* Folders on the way that the tar has no entry for. */
static int put_parents(struct reader *t, struct err *e)
{
	struct tree_entry *m = calloc(1, sizeof(*m));
	int r = m ? 0 : out_of_memory(e);

	for (const char *slash = strchr(t->m.path, '/'); slash && r >= 0;
		slash = strchr(slash + 1, '/')) {
		*m = (struct tree_entry){.type = TREE_DIR,
			.mode = MADE_MODE | TREE_MODE_IMPLIED,
			.mtime_ns = t->m.mtime_ns};
		memcpy(m->path, t->m.path, (size_t)(slash - t->m.path));
		r = note_folder(t, m->path, e);
		if (r > 0)
			r = put(t, m, e);
	}
	free(m);
	return r < 0 ? r : 0;
}

static int put_content(struct reader *t, struct err *e)
{
	uint64_t at = 0;

	for (;;) {
		const void *data;
		size_t len;
		la_int64_t offset;
		int r = archive_read_data_block(t->archive, &data, &len, &offset);
		if (r == ARCHIVE_EOF)
			return put_zeros(t, t->m.size - at, e);
		if (r != ARCHIVE_OK)
			return failed(t, e);
		if (offset < 0 || (uint64_t)offset < at || (uint64_t)offset > t->m.size ||
			len > t->m.size - (uint64_t)offset)
			return err_set(e, ERR_CORRUPT, 0, "the parts of a sparse file overlap");
		if ((r = put_zeros(t, (uint64_t)offset - at, e)) < 0 ||
			(r = put_bytes(t, data, len, e)) < 0)
			return r;
		at = (uint64_t)offset + len;
	}
}

/* ---- entries ---- */

static enum tree_type type_of(struct archive_entry *entry)
{
	switch (archive_entry_filetype(entry)) {
	case AE_IFREG:
		return TREE_FILE;
	case AE_IFDIR:
		return TREE_DIR;
	case AE_IFLNK:
		return TREE_SYMLINK;
	default:
		return TREE_SKIPPED;
	}
}

static uint32_t id_of(int64_t id)
{
	return id < 0 || id >= UINT32_MAX ? 0 : (uint32_t)id;
}

static int take_target(struct reader *t, struct err *e)
{
	const char *hardlink = archive_entry_hardlink(t->entry);
	const char *symlink = archive_entry_symlink(t->entry);

	if (hardlink) {
		t->m.type = TREE_HARDLINK;
		return take_name(hardlink, t->m.target, e);
	}
	if (t->m.type != TREE_SYMLINK)
		return 0;
	if (!symlink || !*symlink || strlen(symlink) >= TREE_PATH_MAX)
		return err_set(e, ERR_INVALID, 0, "a link in the tar leads nowhere");
	(void)snprintf(t->m.target, sizeof(t->m.target), "%s", symlink);
	return 0;
}

static int take_entry(struct reader *t, struct err *e)
{
	int64_t size = archive_entry_size(t->entry);
	struct tree_entry *m = &t->m;

	*m = (struct tree_entry){.type = type_of(t->entry),
		.mode = (uint32_t)archive_entry_perm(t->entry) & 07777,
		.uid = id_of(archive_entry_uid(t->entry)),
		.gid = id_of(archive_entry_gid(t->entry))};
	m->mtime_ns =
		tree_time_ns((struct timespec){.tv_sec = (time_t)archive_entry_mtime(t->entry),
			.tv_nsec = archive_entry_mtime_nsec(t->entry)});
	int r = take_name(archive_entry_pathname(t->entry), m->path, e);
	if (r == 0)
		r = take_target(t, e);
	if (r == 0 && m->type == TREE_FILE && size < 0)
		return err_set(e, ERR_CORRUPT, 0, "a file in the tar has no size");
	if (r == 0 && m->type == TREE_FILE)
		m->size = (uint64_t)size;
	return r;
}

static int convert_entry(struct reader *t, struct err *e)
{
	int r = take_entry(t, e);

	if (r < 0)
		return r;
	if (!*t->m.path) /* the folder that it is unpacked into stays as it is */
		return t->m.type == TREE_DIR
			       ? 0
			       : err_set(e, ERR_INVALID, 0, "an entry of the tar has no name");
	if (t->m.type == TREE_HARDLINK && !*t->m.target)
		return err_set(e, ERR_INVALID, 0, "a hard link in the tar leads nowhere");
	if ((r = put_parents(t, e)) < 0)
		return r;
	if (t->m.type == TREE_DIR && (r = note_folder(t, t->m.path, e)) < 0)
		return r;
	if ((r = put(t, &t->m, e)) < 0 || t->m.type != TREE_FILE)
		return r;
	return put_content(t, e);
}

static int put_root(struct reader *t, enum tree_type type, struct err *e)
{
	t->m = (struct tree_entry){.type = type, .mode = type == TREE_DIR ? MADE_MODE : 0};
	return put(t, &t->m, e);
}

static int convert(struct reader *t, struct err *e)
{
	struct archive *a = t->archive = archive_read_new();
	int status, r;

	if (!a || archive_read_support_format_tar(a) != ARCHIVE_OK)
		return out_of_memory(e);
	(void)archive_read_support_filter_gzip(a);
	(void)archive_read_support_filter_bzip2(a);
	(void)archive_read_support_filter_xz(a);
	(void)archive_read_support_filter_zstd(a);
	if (archive_read_open(a, t, NULL, read_some, NULL) != ARCHIVE_OK)
		return failed(t, e);
	if ((r = put_root(t, TREE_DIR, e)) < 0)
		return r;
	while ((status = archive_read_next_header(a, &t->entry)) != ARCHIVE_EOF) {
		if (status != ARCHIVE_OK && !(status == ARCHIVE_WARN && archive_errno(a) == EILSEQ))
			return failed(t, e);
		if ((r = convert_entry(t, e)) < 0)
			return r;
	}
	if ((r = put_root(t, TREE_END, e)) < 0 || (r = flush(t, e)) < 0)
		return r;
	/* Who writes the tar writes more than its end, and would see a broken pipe. */
	while (fd_read_full(t->in, t->chunk, sizeof(t->chunk)) > 0)
		;
	return 0;
}

int tree_from_tar(int in, int out, struct err *e)
{
	struct reader *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return out_of_memory(e);
	t->in = in;
	t->out = out;
	buf_init(&t->b, 4 * CHUNK + TREE_HEADER_MAX);
	r = convert(t, e);
	if (t->archive)
		(void)archive_read_free(t->archive);
	tdestroy(t->folders, free);
	buf_release(&t->b);
	free(t);
	return r;
}
