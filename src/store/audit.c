/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Appending. All under the lock audit/lock, in this order:
 *
 *   1. where the chain stands: the head or the catalog's mark, whichever counts more
 *   2. what a crash left behind that point is sealed
 *   3. the head is made durable, if audit_settle() has not done so already
 *   4. the record is written behind the log and made durable
 *   5. the head, in place; 6. the catalog's mark
 *
 * Because of 3 the log is never more than one record ahead of a durable head. A failure of 4, 5 or
 * 6 takes the log and the head back to what they were.
 *
 * Damage that 1 and 2 find is never repaired. The chain goes on from the highest point that was
 * signed, so what is missing before it stays missing for audit_verify(). Where there is no such
 * point (the head is forged, the key is another, unsigned records follow) nothing is appended.
 */
#include "audit.h"

#include "audit-key.h"
#include "audit-log.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/file.h"
#include "../base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct audit {
	int home_dirfd;
	struct catalog *catalog;
	struct audit_key key;
	char checked_sig[AUDIT_SIG_SIZE]; /* a signature known to hold */
	char settled_sig[AUDIT_SIG_SIZE]; /* of a head known to be durable as long as it is the head
					   */
};

/* One append, from lock to unlock. */
struct session {
	struct audit *a;
	int dir, lock, log;
	off_t size; /* of the log */
	uint64_t count;
	char hash[65];
	bool has_head;
	struct audit_head head;
	uint64_t mark_count;
	char mark_hash[65], mark_key[65];
	bool unterminated; /* damage: what is written next begins on a new line */
};

static void session_close(struct session *s)
{
	(void)fd_close(s->log);
	(void)fd_close(s->dir);
	(void)fd_close(s->lock); /* last: it is the lock */
}
#define cleanup_session __attribute__((cleanup(session_close)))

int audit_open(const struct home *h, struct catalog *c, struct audit **ret, struct err *e)
{
	struct audit *a = calloc(1, sizeof(*a));

	if (!a)
		return err_errno(e, ENOMEM, "cannot open the audit log");
	a->catalog = c;
	a->home_dirfd = fcntl(h->dirfd, F_DUPFD_CLOEXEC, 3);
	if (a->home_dirfd < 0) {
		int saved = errno;
		free(a);
		return err_errno(e, saved, "cannot open the audit log");
	}
	*ret = a;
	return 0;
}

void audit_close(struct audit *a)
{
	if (!a)
		return;
	(void)fd_close(a->home_dirfd);
	audit_key_release(&a->key);
	free(a);
}

void audit_closep(struct audit **a)
{
	audit_close(*a);
	*a = NULL;
}

static int log_error(struct err *e, int errnum)
{
	/* A file size limit (setrlimit) is a full disk to us. */
	if (errnum == EFBIG || errnum == ENOSPC || errnum == EDQUOT) {
		(void)err_set(e, ERR_NO_SPACE, errnum,
			"cannot record the action in the audit log: no space left on the device");
		return err_hint(e, "free some space: kosa8 image prune, or other files");
	}
	(void)err_errno(e, errnum, "cannot record the action in the audit log");
	return err_hint(e, "what cannot be recorded is not done; make audit/ writable again");
}

static int refuse(struct err *e, const char *why)
{
	(void)err_set(e, ERR_CORRUPT, 0, "the audit log is damaged: %s", why);
	return err_hint(e, "kosa8 audit verify; to begin a new log, move the folder audit away");
}

static int open_files(struct session *s, struct err *e)
{
	struct stat st;

	s->dir = dir_open(s->a->home_dirfd, "audit", true, 0700);
	if (s->dir < 0)
		return log_error(e, -s->dir);
	s->lock = lock_open(s->dir, "lock", true);
	if (s->lock < 0)
		return log_error(e, -s->lock);
	s->log = openat(s->dir, AUDIT_LOG, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (s->log < 0 && errno == ENOENT) {
		s->log = openat(s->dir, AUDIT_LOG, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (s->log >= 0 && dir_sync(s->dir) < 0)
			return log_error(e, EIO);
	}
	if (s->log < 0 || fstat(s->log, &st) < 0)
		return log_error(e, errno);
	if (!S_ISREG(st.st_mode))
		return refuse(e, "audit/" AUDIT_LOG " is not a file");
	s->size = st.st_size;
	return 0;
}

/* The key must be the one that signed the head, and the one the catalog knows. */
static int check_key(struct session *s, struct err *e)
{
	struct audit *a = s->a;

	if (!a->key.pkey) {
		int r = audit_key_load(s->dir, &a->key, e);
		if (r < 0)
			return r;
		if (r == 0 && (s->has_head || s->size > 0))
			return refuse(e, "its key (audit/key) is missing");
		/* The catalog may remember a log that was moved away as a whole: see above. */
		if (r == 0)
			return audit_key_make(s->dir, &a->key, e);
	}
	/* The first append makes the head before the mark. */
	if (!s->has_head && s->mark_count > 0 && s->size > 0)
		return refuse(e, "its head (audit/head) is missing");
	if (s->has_head && strcmp(s->head.key, a->key.public_hex) != 0)
		return refuse(e, "its head was signed with another key");
	if (s->has_head && s->mark_count > 0 && strcmp(s->mark_key, a->key.public_hex) != 0)
		return refuse(e, "its key is not the one that the catalog knows");
	return 0;
}

static int find_point(struct session *s, struct err *e)
{
	int r = audit_head_read(s->dir, &s->head, e);

	if (r < 0)
		return r;
	s->has_head = r > 0;
	if ((r = catalog_audit_get(s->a->catalog, &s->mark_count, s->mark_hash, s->mark_key, e)) <
			0 ||
		(r = check_key(s, e)) < 0)
		return r;
	memcpy(s->hash, AUDIT_FIRST_PREV, sizeof(s->hash));
	if (s->has_head) {
		if (strcmp(s->head.sig, s->a->checked_sig) != 0 && !audit_head_holds(&s->head))
			return refuse(e, "the signature of its head does not hold");
		memcpy(s->a->checked_sig, s->head.sig, sizeof(s->head.sig));
		s->count = s->head.count;
		memcpy(s->hash, s->head.hash, sizeof(s->hash));
	}
	if (s->mark_count > s->count) {
		s->count = s->mark_count;
		memcpy(s->hash, s->mark_hash, sizeof(s->hash));
	}
	return 0;
}

static int set_head(struct session *s, struct err *e)
{
	struct audit_head h;
	int r = audit_head_sign(&s->a->key, s->count, s->hash, &h, e);

	if (r < 0 || (r = audit_head_write(s->dir, &h, e)) < 0)
		return r;
	s->head = h;
	s->has_head = true;
	memcpy(s->a->checked_sig, h.sig, sizeof(h.sig));
	return 0;
}

static void take_back(struct session *s, const struct audit_head *head, bool had_head)
{
	struct err ignored;

	s->a->settled_sig[0] = '\0';
	/* In this order: in between, the log is one record ahead, as after a crash. */
	if (had_head)
		(void)!audit_head_write(s->dir, head, &ignored);
	else
		(void)unlinkat(s->dir, "head", 0);
	(void)!ftruncate(s->log, s->size);
}

/* Steps 3 to 6. On success the session stands behind the new record. */
static int put_record(struct session *s, struct buf *b, const char *hash, struct err *e)
{
	const struct audit_head old = s->head;
	bool had_head = s->has_head;
	uint64_t count = s->count;
	char old_hash[65];
	int r = 0;

	if (!had_head || strcmp(old.sig, s->a->settled_sig) != 0)
		r = audit_head_sync(s->dir, e);
	if (r < 0)
		return r;
	r = fd_pwrite_all(s->log, b->data, b->len, s->size);
	if (r == 0 && fdatasync(s->log) < 0)
		r = -errno;
	if (r < 0) {
		(void)!ftruncate(s->log, s->size);
		return log_error(e, -r);
	}
	memcpy(old_hash, s->hash, sizeof(old_hash));
	s->count = count + 1;
	memcpy(s->hash, hash, sizeof(s->hash));
	r = set_head(s, e);
	if (r == 0)
		r = catalog_audit_mark(s->a->catalog, s->count, s->hash, s->a->key.public_hex, e);
	if (r < 0) {
		take_back(s, &old, had_head);
		s->count = count;
		memcpy(s->hash, old_hash, sizeof(old_hash));
		return err_wrap(e, "cannot record the action in the audit log");
	}
	s->size += (off_t)b->len;
	s->unterminated = false;
	return 0;
}

static int append(
	struct session *s, const struct audit_event *ev, struct audit_fields *f, struct err *e)
{
	cleanup_buf struct buf b = {0};
	char hash[65];

	buf_init(&b, AUDIT_LINE_MAX + 2);
	if (s->unterminated)
		buf_put(&b, "\n", 1);
	f->wall_ns = clock_wall_ns();
	f->seq = s->count + 1;
	f->prev = s->hash;
	int r = audit_record_put(&b, ev, f, hash, e);
	return r < 0 ? r : put_record(s, &b, hash, e);
}

/* The record that tells of a crash: sealed is the number of a record that had no head, or 0; torn
 * the length of a piece of one, which was cut off. */
static int append_recovered(struct session *s, const struct audit_actor *actor, uint64_t sealed,
	size_t torn, struct err *e)
{
	cleanup_json *detail = sealed ? json_pack("{s:I}", "sealed", (json_int_t)sealed)
				      : json_pack("{s:I}", "torn_bytes", (json_int_t)torn);
	struct audit_event ev = {.action = "recovered", .actor = actor, .detail = detail};
	struct audit_fields f = {.phase = "end", .has_of = true, .result = "ok"};

	return append(s, &ev, &f, e);
}

static bool is_point(const struct session *s, const struct audit_tail *t)
{
	if (!t->has_line)
		return s->count == 0;
	return t->is_record && t->last.seq == s->count && strcmp(t->last.hash, s->hash) == 0;
}

/* Step 2. */
static int seal(struct session *s, const struct audit_actor *actor, struct err *e)
{
	struct audit_tail t;
	int r = audit_tail_read(s->log, s->size, &t, e);

	if (r < 0)
		return r;
	uint64_t signed_count = s->has_head ? s->head.count : 0;
	if (is_point(s, &t)) {
		/* More than one ahead of the head is what no crash can explain: see step 3. */
		if (s->count > signed_count + 1)
			return refuse(e, "its head is older than it");
		if (s->count > signed_count && (r = set_head(s, e)) < 0)
			return r;
		if (t.torn == 0)
			return 0;
		if (ftruncate(s->log, t.whole) < 0)
			return log_error(e, errno);
		s->size = t.whole;
		return append_recovered(s, actor, 0, t.torn, e);
	}
	s->unterminated = t.torn > 0;
	if (!t.is_record || t.last.seq <= s->count)
		return 0; /* damage: go on from the point */
	if (t.last.seq != s->count + 1 || strcmp(t.last.prev, s->hash) != 0 || t.torn > 0)
		return refuse(e, "records follow that were never signed");
	s->count = t.last.seq;
	memcpy(s->hash, t.last.hash, sizeof(s->hash));
	if ((r = set_head(s, e)) < 0)
		return r;
	return append_recovered(s, actor, s->count, 0, e);
}

static int record(
	struct audit *a, const struct audit_event *ev, struct audit_fields *f, struct err *e)
{
	cleanup_session struct session s = {.a = a, .dir = -1, .lock = -1, .log = -1};
	int r = open_files(&s, e);

	if (r < 0 || (r = find_point(&s, e)) < 0 || (r = seal(&s, ev->actor, e)) < 0)
		return r;
	return append(&s, ev, f, e);
}

/* Under the lock, so that the head that is read is the one that becomes durable. */
int audit_settle(const struct audit *a, char ret_sig[static AUDIT_SIG_SIZE])
{
	struct audit_head head;
	struct err e;
	cleanup_fd int dir = dir_open(a->home_dirfd, "audit", false, 0);
	cleanup_fd int lock = dir < 0 ? dir : lock_open(dir, "lock", true);

	if (lock < 0)
		return lock;
	int r = audit_head_read(dir, &head, &e);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	if ((r = audit_head_sync(dir, &e)) < 0)
		return r;
	memcpy(ret_sig, head.sig, sizeof(head.sig));
	return 0;
}

void audit_settled(struct audit *a, const char *sig)
{
	(void)snprintf(a->settled_sig, sizeof(a->settled_sig), "%s", sig);
}

int audit_begin(struct audit *a, const struct audit_event *ev, uint64_t *ret_seq, struct err *e)
{
	struct audit_fields f = {.phase = "begin"};
	int r = record(a, ev, &f, e);

	if (r < 0)
		return r;
	*ret_seq = f.seq;
	return 0;
}

int audit_end(struct audit *a, const struct audit_event *ev, uint64_t begin_seq, const char *result,
	struct err *e)
{
	struct audit_fields f = {.phase = "end", .has_of = true, .of = begin_seq, .result = result};

	return record(a, ev, &f, e);
}
