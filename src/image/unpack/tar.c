/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libarchive runs in the C locale on purpose: there it cannot convert names from PAX headers, says
 * so in a warning, and hands the bytes over as they are. In a UTF-8 locale it would normalise them
 * (NFC), and two names of one folder could become one.
 */
#include "tar.h"

#include "../../base/log.h"
#include "../../base/text.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SHOWN_NAME_SIZE 100 /* of an entry's name, escaped, in an error */
#define TAIL_SIZE 512	    /* a tar's block: libarchive looks at one at a time */

struct layer {
	struct archive *a;
	struct layer_stream *stream;
	struct tree *t;
	const struct tar_sink *sink;
	struct tar_totals *totals;
	uint64_t tar_start; /* totals->tar_bytes when the layer began */
	struct archive_entry *entry;
	const unsigned char *chunk; /* the last one that libarchive got */
	size_t chunk_len;
	unsigned char tail[TAIL_SIZE]; /* what came before that chunk: its end */
	size_t tail_len;
	char shown[SHOWN_NAME_SIZE + 4]; /* the current entry's name, for errors */
	struct err stream_err;		 /* why read_chunk() failed */
	bool stream_failed;
	bool stream_ended;
	bool padding_cut; /* the tar ends after the content of its last file */
};

static void layer_release(struct layer *l)
{
	if (l->a)
		(void)archive_read_free(l->a);
	layer_stream_free(l->stream);
}

/* What libarchive asked for more without using is still looked at: the chunk is about to go. */
static void save_tail(struct layer *l)
{
	size_t add = l->chunk_len < TAIL_SIZE ? l->chunk_len : TAIL_SIZE;
	size_t keep = l->tail_len < TAIL_SIZE - add ? l->tail_len : TAIL_SIZE - add;

	if (add == 0)
		return;
	memmove(l->tail, l->tail + l->tail_len - keep, keep);
	memcpy(l->tail + keep, l->chunk + l->chunk_len - add, add);
	l->tail_len = keep + add;
}

/* archive_read_callback */
static la_ssize_t read_chunk(struct archive *a, void *ctx, const void **ret)
{
	struct layer *l = ctx;
	size_t len;

	save_tail(l);
	l->chunk_len = 0;
	if (l->stream_failed || layer_stream_next(l->stream, ret, &len, &l->stream_err) < 0) {
		l->stream_failed = true;
		archive_set_error(a, EIO, "read error");
		return -1;
	}
	l->stream_ended = len == 0;
	l->chunk = *ret;
	l->chunk_len = len;
	return (la_ssize_t)len;
}

/* libarchive's text for a header whose checksum is wrong, and for a tar that ends in an entry. */
static int archive_failed(struct layer *l, struct err *e)
{
	const char *text = archive_error_string(l->a);
	char safe[160];

	if (l->stream_failed) {
		*e = l->stream_err;
		return err_code(e);
	}
	if (archive_errno(l->a) == ENOMEM)
		return err_set(e, ERR_LIMIT, ENOMEM, "out of memory while reading the tar");
	text_escape(text ? text : "unknown error", safe, sizeof(safe));
	return err_set(e, ERR_CORRUPT, 0, "damaged tar: %s", safe);
}

/* ---- attributes ---- */

static int get_id(int64_t id, const char *what, uint32_t *ret, struct err *e)
{
	if (id < 0 || id >= UINT32_MAX)
		return err_set(e, ERR_INVALID, 0, "%s %" PRId64 " is no 32-bit number", what, id);
	*ret = (uint32_t)id;
	return 0;
}

static uint32_t get_mtime(struct archive_entry *entry)
{
	int64_t t = archive_entry_mtime(entry);

	return t < 0 ? 0 : t > UINT32_MAX ? UINT32_MAX : (uint32_t)t;
}

static int get_attr(struct archive_entry *entry, struct tree_attr *ret, struct err *e)
{
	struct tree_attr a = {.mtime = get_mtime(entry)};
	int r = get_id(archive_entry_uid(entry), "user id", &a.uid, e);

	if (r == 0)
		r = get_id(archive_entry_gid(entry), "group id", &a.gid, e);
	if (r < 0)
		return r;
	a.mode = (archive_entry_filetype(entry) & S_IFMT) | (archive_entry_perm(entry) & 07777);
	if (S_ISLNK(a.mode))
		a.mode = S_IFLNK | 0777;
	if ((S_ISCHR(a.mode) || S_ISBLK(a.mode)) &&
		tree_encode_dev((uint64_t)archive_entry_rdevmajor(entry),
			(uint64_t)archive_entry_rdevminor(entry), &a.rdev) < 0)
		return err_set(e, ERR_INVALID, 0, "a device number that Linux does not have");
	*ret = a;
	return 0;
}

/* Squashfs has these three name spaces. What overlayfs keeps for itself must not come from an
 * image. */
static bool xattr_is_kept(const char *name)
{
	if (text_starts_with(name, "trusted.overlay.") || text_starts_with(name, "user.overlay."))
		return false;
	return (text_starts_with(name, "user.") && name[5]) ||
	       (text_starts_with(name, "trusted.") && name[8]) ||
	       (text_starts_with(name, "security.") && name[9]);
}

static int put_xattrs(struct archive_entry *entry, struct buf *b, struct err *e)
{
	const char *name;
	const void *value;
	size_t size;
	unsigned count = 0;

	(void)archive_entry_xattr_reset(entry);
	while (archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
		if (!name || !xattr_is_kept(name)) {
			log_debug("extended attribute %s is dropped", name ? name : "without name");
			continue;
		}
		if (++count > UNPACK_XATTRS_MAX)
			return err_set(e, ERR_LIMIT, 0, "more than %d extended attributes",
				UNPACK_XATTRS_MAX);
		if (strlen(name) > UNPACK_XATTR_NAME_MAX)
			return err_set(e, ERR_LIMIT, 0,
				"an extended attribute's name of more than %d bytes",
				UNPACK_XATTR_NAME_MAX);
		if (size > UNPACK_XATTR_VALUE_MAX)
			return err_set(e, ERR_LIMIT, 0,
				"an extended attribute of more than %u bytes",
				UNPACK_XATTR_VALUE_MAX);
		buf_put_u16(b, (uint16_t)(strlen(name) + 1));
		buf_put_u32(b, (uint32_t)size);
		buf_put(b, name, strlen(name) + 1);
		buf_put(b, value, size);
	}
	return 0;
}

static int set_xattrs(struct layer *l, struct tree_inode *inode, struct err *e)
{
	cleanup_buf struct buf b = {0};
	int r;

	buf_init(&b, UNPACK_XATTRS_MAX * (UNPACK_XATTR_VALUE_MAX + UNPACK_XATTR_NAME_MAX + 8));
	r = put_xattrs(l->entry, &b, e);
	if (r < 0)
		return r;
	if (buf_failed(&b))
		return err_set(e, ERR_LIMIT, ENOMEM, "out of memory for extended attributes");
	return tree_set_xattrs(l->t, inode, &b, e);
}

/* ---- content ---- */

static int put_hole(struct layer *l, uint64_t from, uint64_t to, struct err *e)
{
	return to > from ? l->sink->hole(l->sink->ctx, to - from, e) : 0;
}

static int copy_blocks(struct layer *l, uint64_t size, struct err *e)
{
	uint64_t at = 0;

	for (;;) {
		const void *data;
		size_t len;
		la_int64_t offset;
		int r = archive_read_data_block(l->a, &data, &len, &offset);
		if (r == ARCHIVE_EOF)
			return put_hole(l, at, size, e);
		if (r != ARCHIVE_OK && at == size && l->stream_ended) {
			l->padding_cut = true;
			return 0;
		}
		if (r != ARCHIVE_OK)
			return archive_failed(l, e);
		if (offset < 0 || (uint64_t)offset < at || (uint64_t)offset > size ||
			len > size - (uint64_t)offset)
			return err_set(e, ERR_CORRUPT, 0, "the sparse file's parts overlap");
		r = put_hole(l, at, (uint64_t)offset, e);
		if (r == 0 && len > 0)
			r = l->sink->data(l->sink->ctx, data, len, e);
		if (r < 0)
			return r;
		at = (uint64_t)offset + len;
	}
}

static int put_content(struct layer *l, struct tree_inode *inode, struct err *e)
{
	int64_t size = archive_entry_size(l->entry);
	uint64_t left = l->t->limits.total_bytes - l->totals->file_bytes;
	int r;

	if (size < 0 || (uint64_t)size > left)
		return err_set(e, ERR_LIMIT, 0,
			"the file's size (%" PRId64 ") takes the image over %" PRIu64 " bytes",
			size, l->t->limits.total_bytes);
	l->totals->file_bytes += (uint64_t)size;
	r = l->sink->begin(l->sink->ctx, inode, e);
	if (r == 0)
		r = copy_blocks(l, (uint64_t)size, e);
	if (r == 0)
		r = l->sink->end(l->sink->ctx, e);
	return r;
}

/* ---- entries ---- */

enum name_kind {
	NAME_PLAIN,
	NAME_SKIPPED,  /* AUFS's own files */
	NAME_OPAQUE,   /* hides all of its folder */
	NAME_WHITEOUT, /* hides the name after .wh. */
};

static int classify(const struct tree_path *path, enum name_kind *ret, struct err *e)
{
	*ret = NAME_PLAIN;
	for (unsigned i = 0; i < path->count; i++) {
		const struct tree_part *p = &path->parts[i];
		bool last = i + 1 == path->count;
		if (p->len < 4 || memcmp(p->s, ".wh.", 4) != 0)
			continue;
		if (last && p->len == 12 && memcmp(p->s, ".wh..wh..opq", 12) == 0)
			*ret = NAME_OPAQUE;
		else if (p->len >= 8 && memcmp(p->s, ".wh..wh.", 8) == 0)
			*ret = NAME_SKIPPED;
		else if (!last)
			return err_set(e, ERR_INVALID, 0, "a folder named like a whiteout");
		else if (p->len == 4 || (p->len <= 6 && memcmp(p->s + 4, "..", p->len - 4) == 0))
			return err_set(e, ERR_INVALID, 0, "a whiteout of no name");
		else
			*ret = NAME_WHITEOUT;
		if (*ret != NAME_PLAIN)
			return 0;
	}
	return 0;
}

static int apply_whiteout(struct layer *l, const struct tree_path *path, struct err *e)
{
	const struct tree_part *p = &path->parts[path->count - 1];
	char name[UNPACK_NAME_MAX + 1];

	memcpy(name, p->s + 4, p->len - 4);
	name[p->len - 4] = '\0';
	return tree_hide(l->t, path, name, e);
}

static int apply_hardlink(
	struct layer *l, const struct tree_path *path, const char *target, struct err *e)
{
	struct tree_path to;
	int r = tree_path_parse(target, &to, e);

	if (r < 0)
		return err_wrap(e, "the hard link's target");
	return tree_link(l->t, path, &to, e);
}

static int apply_inode(struct layer *l, const struct tree_path *path, struct err *e)
{
	struct tree_inode *inode;
	struct tree_attr attr;
	const char *target = NULL;
	int r = get_attr(l->entry, &attr, e);

	if (r < 0)
		return r;
	if (S_ISLNK(attr.mode)) {
		target = archive_entry_symlink(l->entry);
		if (!target)
			target = "";
	}
	r = tree_put(l->t, path, &attr, target, &inode, e);
	if (r == 0)
		r = set_xattrs(l, inode, e);
	if (r == 0 && S_ISREG(attr.mode))
		r = put_content(l, inode, e);
	return r;
}

static int apply_entry(struct layer *l, const char *name, struct err *e)
{
	struct tree_path path;
	enum name_kind kind;
	int r;

	r = tree_path_parse(name, &path, e);
	if (r == 0)
		r = classify(&path, &kind, e);
	if (r < 0)
		return r;
	switch (kind) {
	case NAME_SKIPPED:
		return 0;
	case NAME_OPAQUE:
		return tree_hide(l->t, &path, NULL, e);
	case NAME_WHITEOUT:
		return apply_whiteout(l, &path, e);
	case NAME_PLAIN:
		break;
	}
	const char *hardlink = archive_entry_hardlink(l->entry);
	if (hardlink)
		return apply_hardlink(l, &path, hardlink, e);
	switch (archive_entry_filetype(l->entry)) {
	case AE_IFSOCK:
		return 0;
	case AE_IFREG:
	case AE_IFDIR:
	case AE_IFLNK:
	case AE_IFCHR:
	case AE_IFBLK:
	case AE_IFIFO:
		return apply_inode(l, &path, e);
	default:
		return err_set(e, ERR_INVALID, 0, "an entry of an unknown type");
	}
}

static void set_shown(struct layer *l, const char *name)
{
	char safe[SHOWN_NAME_SIZE + 2];

	text_escape(name, safe, sizeof(safe));
	(void)snprintf(l->shown, sizeof(l->shown), "%.*s%s", SHOWN_NAME_SIZE, safe,
		strlen(safe) > SHOWN_NAME_SIZE ? "..." : "");
}

/* A warning about a name's characters is what we want (above); any other says that part of a header
 * was ignored, and what was ignored may be the name. */
static int check_warning(struct layer *l, int status, struct err *e)
{
	if (status == ARCHIVE_OK || (status == ARCHIVE_WARN && archive_errno(l->a) == EILSEQ))
		return 0;
	return archive_failed(l, e);
}

/* The name is there when it was the rest of the header that could not be read. */
static int header_failed(struct layer *l, struct err *e)
{
	const char *name = l->entry ? archive_entry_pathname(l->entry) : NULL;
	int r = archive_failed(l, e);

	if (name && *name) {
		set_shown(l, name);
		return err_wrap(e, "entry \"%s\"", l->shown);
	}
	return l->shown[0] ? err_wrap(e, "after entry \"%s\"", l->shown) : r;
}

/* 1: an entry was applied, 0: the archive's end. */
static int next_entry(struct layer *l, struct err *e)
{
	int status = archive_read_next_header(l->a, &l->entry);
	const char *name;
	int r;

	if (status == ARCHIVE_EOF)
		return 0;
	if (status != ARCHIVE_OK && status != ARCHIVE_WARN)
		return header_failed(l, e);
	name = archive_entry_pathname(l->entry);
	if (!name || !*name)
		return err_set(e, ERR_INVALID, 0, "an entry without a name");
	set_shown(l, name);
	r = check_warning(l, status, e);
	if (r == 0)
		r = apply_entry(l, name, e);
	return r < 0 ? err_wrap(e, "entry \"%s\"", l->shown) : 1;
}

static bool all_zero(const unsigned char *p, size_t len)
{
	return len == 0 || (p[0] == 0 && memcmp(p, p + 1, len - 1) == 0);
}

static int goes_on(struct err *e)
{
	return err_set(e, ERR_CORRUPT, 0, "the tar goes on after a zero block");
}

/* Two zero blocks end a tar, whatever follows; after one there may only be zeros. libarchive takes
 * the second along with the first. */
static bool has_ended(const struct layer *l)
{
	int64_t used = archive_filter_bytes(l->a, 0) - archive_read_header_position(l->a);

	return !l->padding_cut && used >= 2 * (int64_t)TAIL_SIZE;
}

/* What follows the archive's end is part of the digest: first what libarchive has but did not use,
 * then what it never asked for. */
static int read_rest(struct layer *l, struct err *e)
{
	uint64_t unused =
		l->totals->tar_bytes - l->tar_start - (uint64_t)archive_filter_bytes(l->a, 0);
	const unsigned char *p;
	size_t len = unused < l->chunk_len ? (size_t)unused : l->chunk_len;
	size_t before = unused - len < l->tail_len ? (size_t)(unused - len) : l->tail_len;
	bool any = has_ended(l);
	const void *data;
	int r = 0;

	if (!any && !all_zero(l->tail + l->tail_len - before, before))
		return goes_on(e);
	p = l->chunk + l->chunk_len - len;
	while (r == 0 && (any || all_zero(p, len))) {
		r = layer_stream_next(l->stream, &data, &len, e);
		if (r < 0 || len == 0)
			return r;
		p = data;
	}
	return goes_on(e);
}

static int apply(struct layer *l, struct err *e)
{
	int r;

	l->a = archive_read_new();
	if (!l->a || archive_read_support_format_tar(l->a) != ARCHIVE_OK)
		return err_set(e, ERR_LIMIT, ENOMEM, "out of memory for libarchive");
	if (archive_read_open(l->a, l, NULL, read_chunk, NULL) != ARCHIVE_OK) {
		if (l->stream_ended && l->totals->tar_bytes == l->tar_start)
			return 0; /* no bytes: nothing changes */
		if (!l->stream_failed && archive_errno(l->a) != ENOMEM)
			return err_set(e, ERR_CORRUPT, 0, "the layer is not a tar archive");
		return archive_failed(l, e);
	}
	do
		r = next_entry(l, e);
	while (r > 0 && !l->padding_cut);
	return r >= 0 ? read_rest(l, e) : r;
}

int tar_apply(int fd, struct tree *t, const struct tar_options *options, struct tar_totals *totals,
	char ret_digest[static SHA256_HEX_SIZE], struct err *e)
{
	__attribute__((cleanup(layer_release))) struct layer l = {
		.t = t, .sink = &options->sink, .totals = totals, .tar_start = totals->tar_bytes};
	int r;

	tree_next_layer(t);
	r = layer_stream_open(fd, &t->limits, &totals->tar_bytes, options->progress,
		options->progress_ctx, &l.stream, e);
	if (r == 0)
		r = apply(&l, e);
	if (r < 0)
		return err_wrap(e, "layer %u", t->layer);
	layer_stream_digest(l.stream, ret_digest);
	return 0;
}
