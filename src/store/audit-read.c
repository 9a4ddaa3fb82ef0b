/* SPDX-License-Identifier: Apache-2.0 */
#include "audit-log.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHUNK_SIZE (4 * AUDIT_LINE_MAX)

static int read_error(struct err *e, int errnum)
{
	return err_errno(e, errnum, "cannot read the audit log");
}

int audit_lines_init(struct audit_lines *l, int fd, off_t end, struct err *e)
{
	*l = (struct audit_lines){.fd = fd, .end = end, .chunk = malloc(CHUNK_SIZE)};
	return l->chunk ? 0 : read_error(e, ENOMEM);
}

void audit_lines_release(struct audit_lines *l)
{
	free(l->chunk);
	l->chunk = NULL;
}

off_t audit_lines_tell(const struct audit_lines *l)
{
	return l->offset - (off_t)(l->filled - l->at);
}

/* Moves what is left to the front and reads on. 0 at the end. */
static int fill(struct audit_lines *l, struct err *e)
{
	size_t left = l->filled - l->at;
	off_t more = l->end - l->offset;

	memmove(l->chunk, l->chunk + l->at, left);
	l->at = 0;
	l->filled = left;
	size_t want = CHUNK_SIZE - left;
	if (more <= 0)
		return 0;
	if ((uint64_t)more < want)
		want = (size_t)more;
	ssize_t n = fd_pread_full(l->fd, l->chunk + left, want, l->offset);
	if (n < 0)
		return read_error(e, (int)-n);
	l->filled += (size_t)n;
	l->offset += n;
	return n > 0;
}

/* The rest of a line that is too long; what follows it stays. */
static int skip_line(struct audit_lines *l, struct err *e)
{
	for (;;) {
		char *from = l->chunk + l->at;
		char *nl = memchr(from, '\n', l->filled - l->at);
		if (nl) {
			l->at = (size_t)(nl + 1 - l->chunk);
			return AUDIT_LINE_LONG;
		}
		l->at = l->filled;
		int r = fill(l, e);
		if (r <= 0)
			return r < 0 ? r : AUDIT_LINE_LONG;
	}
}

int audit_lines_next(struct audit_lines *l, char **ret_line, size_t *ret_len, struct err *e)
{
	char *from, *nl;
	size_t left;

	for (;;) {
		from = l->chunk + l->at;
		left = l->filled - l->at;
		nl = left ? memchr(from, '\n', left) : NULL;
		if (nl || left > AUDIT_LINE_MAX)
			break;
		int r = fill(l, e);
		if (r < 0)
			return r;
		if (r == 0)
			break;
	}
	from = l->chunk + l->at;
	if (!nl && left == 0)
		return AUDIT_LINE_END;
	l->line++;
	size_t len = nl ? (size_t)(nl - from) : left;
	*ret_line = from;
	*ret_len = len;
	if (len > AUDIT_LINE_MAX)
		return skip_line(l, e);
	l->at += nl ? len + 1 : len;
	return nl ? AUDIT_LINE_WHOLE : AUDIT_LINE_TORN;
}

int audit_tail_read(int fd, off_t size, struct audit_tail *ret, struct err *e)
{
	/* A whole line and a torn one behind it, and the newline before both. */
	size_t want = 2 * (AUDIT_LINE_MAX + 1) + 1;
	struct audit_tail t = {.whole = size};

	if ((uint64_t)size < want)
		want = (size_t)size;
	char *text = malloc(want + 1);
	if (!text)
		return read_error(e, ENOMEM);
	ssize_t n = fd_pread_full(fd, text, want, size - (off_t)want);
	if (n != (ssize_t)want) {
		free(text);
		return read_error(e, n < 0 ? (int)-n : EIO);
	}
	char *nl = want ? memrchr(text, '\n', want) : NULL;
	size_t end = nl ? (size_t)(nl - text) : 0;
	t.torn = want - (nl ? end + 1 : 0);
	t.whole = size - (off_t)t.torn;
	if (nl) {
		char *before = memrchr(text, '\n', end);
		char *line = before ? before + 1 : text;
		size_t len = (size_t)(nl - line);
		t.has_line = true;
		t.is_record = audit_record_scan(line, len, &t.last) &&
			      audit_record_holds(line, len, &t.last);
	}
	free(text);
	*ret = t;
	return 0;
}

/* What the callback gets: a whole line's object with a sequence number from on. */
static int give(
	char *line, size_t len, uint64_t from_seq, int (*cb)(const json_t *, void *), void *ctx)
{
	cleanup_json *o = NULL;
	struct audit_scan s;
	struct err ignored;
	uint64_t seq;

	/* Without parsing: `audit ls -f` asks for the newest of a long log. */
	if (audit_record_scan(line, len, &s) && s.seq < from_seq)
		return 0;
	if (json_parse_object(line, len, "the record", &o, &ignored) < 0 ||
		json_get_u64(o, "seq", INT64_MAX, &seq, &ignored) < 0 || seq < from_seq)
		return 0;
	return cb(o, ctx);
}

int audit_read(const struct home *h, uint64_t from_seq, int (*cb)(const json_t *record, void *ctx),
	void *ctx, struct err *e)
{
	cleanup_fd int fd = openat(h->dirfd, "audit/" AUDIT_LOG, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	cleanup_audit_lines struct audit_lines lines = {0};
	struct stat st;
	size_t len;
	char *line;
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0 : read_error(e, errno);
	if (fstat(fd, &st) < 0)
		return read_error(e, errno);
	if ((r = audit_lines_init(&lines, fd, st.st_size, e)) < 0)
		return r;
	while ((r = audit_lines_next(&lines, &line, &len, e)) > 0) {
		/* A torn line is being written, or is what a crash left. */
		if (r != AUDIT_LINE_WHOLE)
			continue;
		if (give(line, len, from_seq, cb, ctx) < 0)
			return 0;
	}
	return r;
}
