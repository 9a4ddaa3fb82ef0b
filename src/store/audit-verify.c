/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifying. Head, mark, key and the log's size are taken at one moment under the lock; the log is
 * then read up to that size without it, for it only grows. The signed head fixes the last record,
 * that one the one before, and so on: the first line that does not fit is the damage. What kind it
 * is is told by looking at the lines behind it.
 */
#include "audit-key.h"
#include "audit-log.h"

#include "../base/fd.h"
#include "../base/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char *const damage_names[] = {
	[AUDIT_OK] = "ok",
	[AUDIT_CHANGED] = "changed",
	[AUDIT_DROPPED] = "dropped",
	[AUDIT_SWAPPED] = "swapped",
	[AUDIT_CUT] = "cut",
	[AUDIT_OLD_COPY] = "old-copy",
	[AUDIT_UNSIGNED] = "unsigned",
	[AUDIT_BAD_HEAD] = "bad-head",
	[AUDIT_BAD_KEY] = "bad-key",
};
static_assert(sizeof(damage_names) / sizeof(damage_names[0]) == AUDIT_DAMAGE_COUNT,
	"a name for every kind of damage");

const char *audit_damage_name(enum audit_damage d)
{
	return damage_names[d];
}

enum file_state { FILE_MISSING, FILE_GOOD, FILE_BAD };

struct check {
	struct audit_report report;
	int log; /* -1: there is none */
	off_t size;
	enum file_state head_state, key_state;
	struct audit_head head; /* count 0 when there is none */
	char key[65];
	uint64_t mark_count;
	char mark_hash[65], mark_key[65];
	struct audit_lines lines;
	uint64_t count; /* the records that fit so far, and the last one's hash */
	char hash[65];
};

static void check_release(struct check *k)
{
	audit_lines_release(&k->lines);
	(void)fd_close(k->log);
}
#define cleanup_check __attribute__((cleanup(check_release)))

static void format_printf(5, 6) found(struct check *k, enum audit_damage damage, uint64_t first_bad,
	uint64_t line, const char *fmt, ...)
{
	struct audit_report *r = &k->report;
	va_list ap;

	r->damage = damage;
	r->first_bad = first_bad;
	r->line = line;
	va_start(ap, fmt);
	(void)vsnprintf(r->text, sizeof(r->text), fmt, ap);
	va_end(ap);
}

#define N(x) ((unsigned long long)(x))

/* ---- the moment ---- */

static int read_head_and_key(struct check *k, int dir, struct err *e)
{
	cleanup_audit_key struct audit_key key = {0};
	int r = audit_head_read(dir, &k->head, e);

	if (r < 0 && e->kind != ERR_CORRUPT)
		return r;
	k->head_state = r < 0 ? FILE_BAD : r > 0 ? FILE_GOOD : FILE_MISSING;
	r = audit_key_load(dir, &key, e);
	if (r < 0 && e->kind != ERR_CORRUPT)
		return r;
	k->key_state = r < 0 ? FILE_BAD : r > 0 ? FILE_GOOD : FILE_MISSING;
	memcpy(k->key, key.public_hex, sizeof(k->key));
	return 0;
}

static int look(struct check *k, const struct home *h, struct catalog *c, struct err *e)
{
	cleanup_fd int dir = dir_open(h->dirfd, "audit", false, 0700), lock = -1;
	struct stat st;
	int r;

	if (dir < 0 && dir != -ENOENT)
		return err_errno(e, -dir, "cannot open %s/audit", h->path);
	if (dir >= 0) {
		lock = lock_open(dir, "lock", true);
		/* Where nothing can be written, nobody appends either. */
		if (lock < 0 && lock != -EROFS)
			return err_errno(e, -lock, "cannot lock %s/audit", h->path);
		if ((r = read_head_and_key(k, dir, e)) < 0)
			return r;
		k->log = openat(dir, AUDIT_LOG, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (k->log < 0 && errno != ENOENT)
			return err_errno(e, errno, "cannot read %s/audit/" AUDIT_LOG, h->path);
	}
	if (k->log >= 0) {
		if (fstat(k->log, &st) < 0)
			return err_errno(e, errno, "cannot read %s/audit/" AUDIT_LOG, h->path);
		k->size = st.st_size;
	}
	return catalog_audit_get(c, &k->mark_count, k->mark_hash, k->mark_key, e);
}

static void check_head(struct check *k)
{
	const struct audit_head *h = &k->head;

	if (k->head_state == FILE_BAD)
		found(k, AUDIT_BAD_HEAD, 0, 0, "the log's head (audit/head) cannot be read");
	else if (k->head_state == FILE_MISSING && k->mark_count > 0)
		found(k, AUDIT_BAD_HEAD, 0, 0,
			"the log's head (audit/head) is missing; the catalog counts %llu records",
			N(k->mark_count));
	else if (k->head_state == FILE_MISSING)
		return;
	else if (!audit_head_holds(h))
		found(k, AUDIT_BAD_HEAD, 0, 0, "the signature of the log's head does not hold");
	else if (k->mark_count > 0 && strcmp(h->key, k->mark_key) != 0)
		found(k, AUDIT_BAD_KEY, 0, 0,
			"the log was signed with another key than the catalog knows");
	else if (k->key_state != FILE_GOOD)
		found(k, AUDIT_BAD_KEY, 0, 0, "the log's key (audit/key) is %s",
			k->key_state == FILE_MISSING ? "missing" : "not a key");
	else if (strcmp(k->key, h->key) != 0)
		found(k, AUDIT_BAD_KEY, 0, 0,
			"the log's key (audit/key) is not the one that signed its head");
}

/* ---- what kind of damage ---- */

/* The next record behind the current line that has this number: 1, or 0 when there is none. seq 0:
 * any record will do. */
static int look_ahead(struct check *k, uint64_t seq, struct audit_scan *ret, struct err *e)
{
	cleanup_audit_lines struct audit_lines ahead = {0};
	char *line;
	size_t len;
	int r = audit_lines_init(&ahead, k->log, k->size, e);

	if (r < 0)
		return r;
	ahead.offset = audit_lines_tell(&k->lines);
	while ((r = audit_lines_next(&ahead, &line, &len, e)) > 0) {
		if (r != AUDIT_LINE_WHOLE || !audit_record_scan(line, len, ret) ||
			!audit_record_holds(line, len, ret))
			continue;
		if (seq == 0 || ret->seq == seq)
			return 1;
	}
	return r;
}

static int not_a_record(struct check *k, struct err *e)
{
	uint64_t wanted = k->count + 1, line = k->lines.line;
	struct audit_scan next;
	int r = look_ahead(k, 0, &next, e);

	if (r < 0)
		return r;
	if (r > 0 && next.seq == wanted)
		found(k, AUDIT_DROPPED, wanted, line,
			"line %llu, where record %llu should be, is not a record", N(line),
			N(wanted));
	else
		found(k, AUDIT_CHANGED, wanted, line,
			"record %llu was changed: it can no longer be read", N(wanted));
	return 0;
}

static int out_of_order(struct check *k, const struct audit_scan *s, struct err *e)
{
	uint64_t wanted = k->count + 1, line = k->lines.line;
	struct audit_scan later;
	int r = s->seq > wanted ? look_ahead(k, wanted, &later, e) : 1;

	if (r < 0)
		return r;
	if (r > 0)
		found(k, AUDIT_SWAPPED, wanted, line,
			"records are out of order: record %llu stands where record %llu should be",
			N(s->seq), N(wanted));
	else if (s->seq == wanted + 1)
		found(k, AUDIT_DROPPED, wanted, line, "record %llu is missing", N(wanted));
	else
		found(k, AUDIT_DROPPED, wanted, line, "records %llu to %llu are missing", N(wanted),
			N(s->seq - 1));
	return 0;
}

/* A record that holds in itself does not continue the one before: one of the two was made anew with
 * a hash of its own. When the next one (or the head) continues it, it is the one before. */
static int broken_link(struct check *k, const struct audit_scan *s, struct err *e)
{
	uint64_t bad = k->count + 1, line = k->lines.line;
	struct audit_scan next;
	int r = s->seq < k->head.count ? look_ahead(k, s->seq + 1, &next, e) : 0;

	if (r < 0)
		return r;
	bool continued = r > 0 ? strcmp(next.prev, s->hash) == 0
			       : s->seq == k->head.count && strcmp(k->head.hash, s->hash) == 0;
	if (continued && k->count > 0) {
		bad--;
		line--;
		k->count--;
	}
	found(k, AUDIT_CHANGED, bad, line, "record %llu was replaced by another one", N(bad));
	return 0;
}

/* ---- the walk ---- */

static bool accept(struct check *k, const struct audit_scan *s)
{
	k->count = s->seq;
	memcpy(k->hash, s->hash, sizeof(k->hash));
	if (k->count != k->mark_count || strcmp(k->hash, k->mark_hash) == 0)
		return true;
	k->count--;
	found(k, AUDIT_CHANGED, s->seq, k->lines.line,
		"record %llu is not the one that the catalog knows", N(s->seq));
	return false;
}

/* A line that the head counts. Anything but 0 ends the walk. */
static int check_line(struct check *k, int kind, char *line, size_t len, struct err *e)
{
	uint64_t wanted = k->count + 1;
	struct audit_scan s;
	int r;

	if (kind == AUDIT_LINE_TORN) {
		found(k, AUDIT_CUT, wanted, k->lines.line,
			"the log was cut within record %llu; its head counts %llu", N(wanted),
			N(k->head.count));
		return 1;
	}
	if (kind == AUDIT_LINE_LONG || !audit_record_scan(line, len, &s)) {
		r = not_a_record(k, e);
		return r < 0 ? r : 1;
	}
	if (!audit_record_holds(line, len, &s)) {
		found(k, AUDIT_CHANGED, wanted, k->lines.line,
			"record %llu was changed: its bytes do not give its hash", N(wanted));
		return 1;
	}
	if (s.seq != wanted)
		r = out_of_order(k, &s, e);
	else if (strcmp(s.prev, k->hash) != 0)
		r = broken_link(k, &s, e);
	else
		return accept(k, &s) ? 0 : 1;
	return r < 0 ? r : 1;
}

/* What stands behind the last record that the head counts: nothing, or what one crash leaves. */
static int check_rest(struct check *k, struct err *e)
{
	struct audit_scan s;
	char *line, *more;
	size_t len;
	int kind = audit_lines_next(&k->lines, &line, &len, e);

	if (kind <= 0)
		return kind;
	k->report.unsealed = true;
	if (kind == AUDIT_LINE_TORN)
		return 0;
	if (kind == AUDIT_LINE_WHOLE && audit_record_scan(line, len, &s) &&
		audit_record_holds(line, len, &s) && s.seq == k->count + 1 &&
		strcmp(s.prev, k->hash) == 0) {
		int next = audit_lines_next(&k->lines, &more, &len, e);
		if (next < 0)
			return next;
		if (next == AUDIT_LINE_END) {
			(void)accept(k, &s);
			return 0;
		}
	}
	k->report.unsealed = false;
	if (k->head_state == FILE_MISSING)
		found(k, AUDIT_BAD_HEAD, 0, 0, "the log's head (audit/head) is missing");
	else
		found(k, AUDIT_UNSIGNED, k->count + 1, k->lines.line,
			"what follows record %llu was never signed", N(k->count));
	return 0;
}

static int walk(struct check *k, struct err *e)
{
	char *line;
	size_t len;
	int kind, r;

	while (k->count < k->head.count) {
		kind = audit_lines_next(&k->lines, &line, &len, e);
		if (kind < 0)
			return kind;
		if (kind == AUDIT_LINE_END) {
			found(k, AUDIT_CUT, k->count + 1, k->lines.line,
				"the log ends after record %llu; its head counts %llu", N(k->count),
				N(k->head.count));
			return 0;
		}
		if ((r = check_line(k, kind, line, len, e)) != 0)
			return r < 0 ? r : 0;
	}
	if (k->head.count > 0 && strcmp(k->hash, k->head.hash) != 0) {
		k->count--;
		found(k, AUDIT_CHANGED, k->head.count, k->lines.line,
			"record %llu was replaced by another one", N(k->head.count));
		return 0;
	}
	return check_rest(k, e);
}

/* The log and its head agree; the catalog may still have seen more. */
static void check_mark(struct check *k)
{
	if (k->report.damage == AUDIT_OK && k->mark_count > k->count)
		found(k, AUDIT_OLD_COPY, k->count + 1, 0,
			"an older copy of the log was put back: it has %llu records, the catalog "
			"counts %llu",
			N(k->count), N(k->mark_count));
}

int audit_verify(const struct home *h, struct catalog *c, struct audit_report *ret, struct err *e)
{
	cleanup_check struct check k = {.log = -1};
	int r = look(&k, h, c, e);

	if (r < 0)
		return r;
	memcpy(k.hash, AUDIT_FIRST_PREV, sizeof(k.hash));
	check_head(&k);
	if (k.report.damage == AUDIT_OK) {
		if ((r = audit_lines_init(&k.lines, k.log, k.size, e)) < 0 || (r = walk(&k, e)) < 0)
			return r;
		check_mark(&k);
	}
	k.report.count = k.count;
	memcpy(k.report.head_hash, k.hash, sizeof(k.hash));
	*ret = k.report;
	return 0;
}
