/* SPDX-License-Identifier: Apache-2.0 */
/* Damage of each kind, done to a good log, must be found, at its place, and called by its name; the
 * good log put back must hold again. */
#include "store-test.h"

#include "store/audit-key.h"
#include "store/audit-record.h"

#include <errno.h>

#define LOG "audit/log.jsonl"
#define HEAD "audit/head"
#define KEY "audit/key"
#define RECORDS 12

static struct home home;
static struct catalog *catalog;
static struct audit *audit;
static struct audit_actor actor;

/* The good state: the files, and where each record begins. */
static char *good_log, *good_head, *good_key;
static size_t log_len, head_len, key_len, start[RECORDS + 2];

static void append(int n)
{
	for (int i = 0; i < n; i++) {
		struct audit_event ev = {.action = "run", .sandbox = "box", .actor = &actor};
		uint64_t seq;
		if (audit_begin(audit, &ev, &seq, &test_err) < 0)
			test_bail("audit_begin");
	}
}

static void save(void)
{
	free(good_log);
	free(good_head);
	free(good_key);
	good_log = test_read(&home, LOG, &log_len);
	good_head = test_read(&home, HEAD, &head_len);
	good_key = test_read(&home, KEY, &key_len);
	size_t n = 0;
	start[0] = start[1] = 0;
	for (size_t i = 0; i < log_len; i++)
		if (good_log[i] == '\n' && ++n <= RECORDS)
			start[n + 1] = i + 1;
}

static void put_back(void)
{
	test_write(&home, LOG, good_log, log_len);
	test_write(&home, HEAD, good_head, head_len);
	test_write(&home, KEY, good_key, key_len);
}

static struct audit_report verify(void)
{
	struct audit_report r;

	if (audit_verify(&home, catalog, &r, &test_err) < 0)
		test_bail("audit_verify");
	return r;
}

/* Whether the log now has this damage at this record; says so and puts the good log back. */
static void expect(enum audit_damage damage, uint64_t first_bad, const char *what)
{
	struct audit_report r = verify();

	if (!OK(r.damage == damage && r.first_bad == first_bad && !r.unsealed, what))
		printf("# got %s at %llu, want %s at %llu: %s\n", audit_damage_name(r.damage),
			(unsigned long long)r.first_bad, audit_damage_name(damage),
			(unsigned long long)first_bad, r.text);
	put_back();
	r = verify();
	OK(r.damage == AUDIT_OK && r.count == RECORDS && !r.unsealed,
		"control: put back, it holds");
}

static void write_pieces(size_t n, const size_t (*pieces)[2])
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, 1 << 24);
	for (size_t i = 0; i < n; i++)
		buf_put(&b, good_log + start[pieces[i][0]],
			start[pieces[i][1]] - start[pieces[i][0]]);
	test_write(&home, LOG, b.data, b.len);
}
/* Records [from, to), ... */
#define PIECES(...)                                                                \
	write_pieces(sizeof((const size_t[][2]){__VA_ARGS__}) / sizeof(size_t[2]), \
		(const size_t[][2]){__VA_ARGS__})

/* Every byte of three records, the last one's newline apart. */
static void test_every_byte(void)
{
	static const size_t records[] = {1, 6, RECORDS};
	cleanup_fd int fd = openat(home.dirfd, LOG, O_RDWR);
	int wrong = 0, tried = 0;

	for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
		size_t n = records[i], end = start[n + 1] - (n == RECORDS);
		for (size_t at = start[n]; at < end; at++, tried++) {
			char bad = (char)(good_log[at] ^ 1);
			if (pwrite(fd, &bad, 1, (off_t)at) != 1)
				test_bail("pwrite");
			struct audit_report r = verify();
			if ((r.damage != AUDIT_CHANGED || r.first_bad != n || r.line != n) &&
				wrong++ < 5)
				printf("# byte %zu of record %zu: %s at %llu\n", at - start[n], n,
					audit_damage_name(r.damage),
					(unsigned long long)r.first_bad);
			if (pwrite(fd, &good_log[at], 1, (off_t)at) != 1)
				test_bail("pwrite");
		}
	}
	OK(tried > 900, "bytes were changed");
	EQ_INT(wrong, 0, "any changed byte is found, as changed, in its record");
	EQ_INT(verify().damage, AUDIT_OK, "control: changed back, it holds");
}

static void test_changed(void)
{
	cleanup_str char *copy = strndup(good_log, log_len);
	char *newline = copy + start[RECORDS + 1] - 1;

	*newline = 'x';
	test_write(&home, LOG, copy, log_len);
	expect(AUDIT_CUT, RECORDS, "the last newline changed: the last record is not whole");
	*newline = '\n';
	copy[start[4] + 60] = '\n';
	test_write(&home, LOG, copy, log_len);
	expect(AUDIT_CHANGED, 4, "a newline within a record");
}

/* A record made anew, with a hash that fits its bytes. */
static void remake(size_t n)
{
	cleanup_buf struct buf b, record;
	struct audit_event ev = {.action = "forged", .actor = &actor};
	struct audit_scan s;
	char hash[65];

	buf_init(&b, 1 << 24);
	buf_init(&record, 1 << 20);
	if (!audit_record_scan(good_log + start[n], start[n + 1] - start[n] - 1, &s))
		test_bail("audit_record_scan");
	struct audit_fields f = {.seq = n, .phase = "begin", .prev = s.prev};
	if (audit_record_put(&record, &ev, &f, hash, &test_err) < 0)
		test_bail("audit_record_put");
	buf_put(&b, good_log, start[n]);
	buf_put(&b, record.data, record.len);
	buf_put(&b, good_log + start[n + 1], log_len - start[n + 1]);
	test_write(&home, LOG, b.data, b.len);
}

static void test_remade(void)
{
	remake(1);
	expect(AUDIT_CHANGED, 1, "the first record made anew with a good hash");
	remake(5);
	expect(AUDIT_CHANGED, 5, "a record made anew with a good hash");
	remake(RECORDS);
	expect(AUDIT_CHANGED, RECORDS, "the last record made anew with a good hash");
}

static void test_dropped(void)
{
	cleanup_buf struct buf b = {0};

	PIECES({1, 5}, {6, RECORDS + 1});
	expect(AUDIT_DROPPED, 5, "a dropped record");
	PIECES({2, RECORDS + 1});
	expect(AUDIT_DROPPED, 1, "the first record dropped");
	PIECES({1, 3}, {9, RECORDS + 1});
	expect(AUDIT_DROPPED, 3, "six dropped records");
	buf_init(&b, 1 << 24);
	buf_put(&b, good_log, start[4]);
	buf_put(&b, "a line that is none\n", 20);
	buf_put(&b, good_log + start[4], log_len - start[4]);
	test_write(&home, LOG, b.data, b.len);
	expect(AUDIT_DROPPED, 4, "a line put between that is no record");
	b.len = start[4];
	for (int i = 0; i < 9000; i++)
		buf_put(&b, "0123456789abcdef", 16);
	buf_put(&b, "\n", 1);
	buf_put(&b, good_log + start[4], log_len - start[4]);
	test_write(&home, LOG, b.data, b.len);
	expect(AUDIT_DROPPED, 4, "a line that is longer than any record");
}

static void test_swapped(void)
{
	PIECES({1, 4}, {5, 6}, {4, 5}, {6, RECORDS + 1});
	expect(AUDIT_SWAPPED, 4, "two neighbours swapped");
	PIECES({RECORDS, RECORDS + 1}, {2, RECORDS}, {1, 2});
	expect(AUDIT_SWAPPED, 1, "the first and the last swapped");
	PIECES({1, 4}, {3, RECORDS + 1});
	expect(AUDIT_SWAPPED, 4, "a record twice");
	PIECES({1, RECORDS - 1}, {RECORDS, RECORDS + 1}, {RECORDS - 1, RECORDS});
	expect(AUDIT_SWAPPED, RECORDS - 1, "the last two swapped");
}

static void test_cut(void)
{
	PIECES({1, RECORDS});
	expect(AUDIT_CUT, RECORDS, "the last record cut");
	PIECES({1, 3});
	expect(AUDIT_CUT, 3, "ten records cut");
	test_write(&home, LOG, "", 0);
	expect(AUDIT_CUT, 1, "cut to nothing");
	if (unlinkat(home.dirfd, LOG, 0) < 0)
		test_bail("unlink");
	expect(AUDIT_CUT, 1, "the log deleted");
	test_write(&home, LOG, good_log, start[5] + 40);
	expect(AUDIT_CUT, 5, "cut within a record");
	test_write(&home, LOG, good_log, log_len - 1);
	expect(AUDIT_CUT, RECORDS, "only the last newline cut");
}

static void test_head(void)
{
	cleanup_str char *head = strndup(good_head, head_len);
	char *count = strstr(head, "\"count\":12"), *hash = strstr(head, "\"hash\":\"");

	if (!count || !hash)
		test_bail("the head has no count");
	count[9] = '1';
	test_write(&home, HEAD, head, head_len);
	PIECES({1, 12});
	expect(AUDIT_BAD_HEAD, 0, "log cut and the head's count changed to fit");
	count[9] = '2';
	hash[20] ^= 1;
	test_write(&home, HEAD, head, head_len);
	expect(AUDIT_BAD_HEAD, 0, "the head's hash changed");
	test_write(&home, HEAD, "{}", 2);
	expect(AUDIT_BAD_HEAD, 0, "the head emptied");
	test_write(&home, HEAD, "not JSON", 8);
	expect(AUDIT_BAD_HEAD, 0, "the head overwritten");
	if (unlinkat(home.dirfd, HEAD, 0) < 0)
		test_bail("unlink");
	expect(AUDIT_BAD_HEAD, 0, "the head deleted");
	const char *const names[] = {LOG, HEAD, KEY};
	for (size_t i = 0; i < 3; i++)
		if (unlinkat(home.dirfd, names[i], 0) < 0)
			test_bail("unlink");
	expect(AUDIT_BAD_HEAD, 0, "all of the folder deleted");
}

/* Somebody signs a rewritten log with a key of his own. */
static void test_key(void)
{
	struct audit_key key = {0};
	struct audit_head head;
	struct audit_scan s;
	cleanup_fd int dir = dir_open(home.dirfd, "audit", false, 0);

	if (audit_key_make(dir, &key, &test_err) < 0)
		test_bail("audit_key_make");
	expect(AUDIT_BAD_KEY, 0, "the key replaced, the head as it was");
	if (!audit_record_scan(good_log + start[8], start[9] - start[8] - 1, &s) ||
		audit_head_sign(&key, 8, s.hash, &head, &test_err) < 0 ||
		audit_head_write(dir, &head, &test_err) < 0)
		test_bail("signing");
	PIECES({1, 9});
	expect(AUDIT_BAD_KEY, 0, "log cut and the head signed with another key");
	if (unlinkat(dir, "key", 0) < 0)
		test_bail("unlink");
	expect(AUDIT_BAD_KEY, 0, "the key deleted");
	test_write(&home, KEY, good_key, key_len / 2);
	expect(AUDIT_BAD_KEY, 0, "half of the key");
	audit_key_release(&key);
}

/* With the key, a log can be signed that does not continue what the catalog has seen. */
static void test_resigned(void)
{
	struct audit_key key = {0};
	struct audit_head head;
	struct audit_scan s;
	cleanup_fd int dir = dir_open(home.dirfd, "audit", false, 0);

	remake(RECORDS);
	cleanup_str char *log = test_read(&home, LOG, NULL);
	size_t len = strlen(log + start[RECORDS]) - 1;
	if (audit_key_load(dir, &key, &test_err) != 1 ||
		!audit_record_scan(log + start[RECORDS], len, &s) ||
		audit_head_sign(&key, RECORDS, s.hash, &head, &test_err) < 0 ||
		audit_head_write(dir, &head, &test_err) < 0)
		test_bail("signing");
	expect(AUDIT_CHANGED, RECORDS, "the last record remade and signed with the right key");
	audit_key_release(&key);
}

static void test_old_copy(void)
{
	append(3);
	put_back();
	struct audit_report r = verify();
	OK(r.damage == AUDIT_OLD_COPY && r.first_bad == RECORDS + 1 && r.count == RECORDS,
		"an older copy of the folder put back");
	/* The chain goes on from what the catalog has seen: the gap stays. */
	append(2);
	r = verify();
	OK(r.damage == AUDIT_DROPPED && r.first_bad == RECORDS + 1 && r.count == RECORDS,
		"and still found when records were appended to it");
}

static void test_cut_and_go_on(void)
{
	PIECES({1, 8});
	append(1);
	struct audit_report r = verify();
	OK(r.damage == AUDIT_DROPPED && r.first_bad == 8, "a cut is found behind an append");
	test_write(&home, LOG, good_log, start[8] + 50);
	append(1);
	r = verify();
	OK(r.damage == AUDIT_CHANGED && r.first_bad == 8,
		"a cut within a record is found behind an append");
}

static void test_refused(void)
{
	struct audit_event ev = {.action = "run", .actor = &actor};
	struct audit *fresh;
	uint64_t seq;

	if (audit_open(&home, catalog, &fresh, &test_err) < 0)
		test_bail("audit_open");
	test_write(&home, HEAD, "{}", 2);
	OK(audit_begin(fresh, &ev, &seq, &test_err) < 0 && test_err.kind == ERR_CORRUPT,
		"a bad head: nothing is appended");
	put_back();
	if (unlinkat(home.dirfd, HEAD, 0) < 0)
		test_bail("unlink");
	OK(audit_begin(fresh, &ev, &seq, &test_err) < 0 && test_err.kind == ERR_CORRUPT,
		"no head: nothing is appended");
	put_back();
	if (unlinkat(home.dirfd, KEY, 0) < 0)
		test_bail("unlink");
	audit_close(fresh);
	if (audit_open(&home, catalog, &fresh, &test_err) < 0)
		test_bail("audit_open");
	OK(audit_begin(fresh, &ev, &seq, &test_err) < 0 && test_err.kind == ERR_CORRUPT,
		"no key: nothing is appended");
	put_back();
	OK(audit_begin(fresh, &ev, &seq, &test_err) == 0 && seq == RECORDS + 1,
		"control: put back, a record is appended");
	audit_close(fresh);
}

/* The way out of a damaged log: a new one, which remembers that there was another. */
static void test_moved_away(void)
{
	struct audit *fresh;

	if (renameat(home.dirfd, "audit", home.dirfd, "audit.old") < 0)
		test_bail("rename");
	if (audit_open(&home, catalog, &fresh, &test_err) < 0)
		test_bail("audit_open");
	audit_close(audit);
	audit = fresh;
	append(2);
	struct audit_report r = verify();
	OK(r.damage == AUDIT_DROPPED && r.first_bad == 1,
		"a folder moved away: recording goes on, the gap is found");
}

static void fresh_log(void)
{
	audit_closep(&audit);
	catalog_closep(&catalog);
	home_release(&home);
	test_home(&home, &catalog);
	if (audit_open(&home, catalog, &audit, &test_err) < 0)
		test_bail("audit_open");
	append(RECORDS);
	save();
	EQ_INT(verify().damage, AUDIT_OK, "control: the fresh log holds");
}

int main(void)
{
	static void (*const pure[])(void) = {test_every_byte, test_changed, test_remade,
		test_dropped, test_swapped, test_cut, test_head, test_key, test_resigned};
	static void (*const spoiling[])(void) = {
		test_old_copy, test_cut_and_go_on, test_refused, test_moved_away};

	test_setup();
	audit_actor_self(&actor);
	fresh_log();
	for (size_t i = 0; i < sizeof(pure) / sizeof(pure[0]); i++)
		pure[i]();
	for (size_t i = 0; i < sizeof(spoiling) / sizeof(spoiling[0]); i++) {
		fresh_log();
		spoiling[i]();
	}
	audit_closep(&audit);
	catalog_closep(&catalog);
	home_release(&home);
	free(good_log);
	free(good_head);
	free(good_key);
	return tap_done();
}
