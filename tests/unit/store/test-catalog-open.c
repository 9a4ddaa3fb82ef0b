/* SPDX-License-Identifier: Apache-2.0 */
/* Opening: many at once, damaged files, other versions, leftovers; and how long it takes. */
#include "store-test.h"

#include "base/clock.h"

#include <sqlite3.h>

#define DB "catalog.db"

static struct home home;
static struct catalog *catalog;
static int start_pipe[2];

static void fresh(bool with_catalog)
{
	catalog_closep(&catalog);
	home_release(&home);
	test_home(&home, with_catalog ? &catalog : NULL);
}

static void wait_for_start(void)
{
	char byte;

	(void)close(start_pipe[1]);
	(void)!read(start_pipe[0], &byte, 1);
}

static int opener(int n)
{
	struct home h;
	struct catalog *c;
	struct sandbox_row row;
	char name[20];
	int lock;

	wait_for_start();
	(void)snprintf(name, sizeof(name), "box-%d", n);
	if (home_open(true, &h, &test_err) < 0 || catalog_open(&h, &c, &test_err) < 0 ||
		catalog_sandbox_add(c, name, "{}", &row, &lock, &test_err) < 0) {
		printf("# %s\n", test_err.what);
		return 1;
	}
	catalog_close(c);
	return 0;
}

static void test_at_once(void)
{
	int failed = 0, missing = 0, rounds = 15;

	for (int round = 0; round < rounds; round++) {
		struct sandbox_rows rows = {0};
		pid_t pids[4];
		fresh(false);
		if (pipe(start_pipe) < 0)
			test_bail("pipe");
		(void)!file_remove_tree(AT_FDCWD, home.path);
		for (int i = 0; i < 4; i++)
			pids[i] = test_fork(opener, i);
		(void)close(start_pipe[0]);
		(void)close(start_pipe[1]); /* go */
		for (int i = 0; i < 4; i++)
			failed += test_wait(pids[i]) != 0;
		home_release(&home);
		if (home_open(false, &home, &test_err) < 0 ||
			catalog_open(&home, &catalog, &test_err) < 0 ||
			catalog_sandbox_list(catalog, &rows, &test_err) < 0)
			test_bail("reading the catalog");
		missing += rows.len != 4;
		sandbox_rows_release(&rows);
	}
	EQ_INT(failed, 0, "four processes make the state directory and the catalog at once");
	EQ_INT(missing, 0, "and what each of them wrote is there");
}

static void test_time(void)
{
	struct catalog *c;
	int64_t best = INT64_MAX;

	fresh(true);
	for (int i = 0; i < 20; i++) {
		int64_t start = clock_mono_us();
		if (catalog_open(&home, &c, &test_err) < 0)
			test_bail("catalog_open");
		int64_t took = clock_mono_us() - start;
		catalog_close(c);
		best = took < best ? took : best;
	}
	printf("# catalog_open beside another connection: %lld us\n", (long long)best);
	OK(best < 3000, "opening takes less than 3 ms");
	catalog_closep(&catalog);
	best = INT64_MAX;
	for (int i = 0; i < 20; i++) {
		int64_t start = clock_mono_us();
		if (catalog_open(&home, &c, &test_err) < 0)
			test_bail("catalog_open");
		int64_t took = clock_mono_us() - start;
		catalog_close(c);
		best = took < best ? took : best;
	}
	printf("# catalog_open alone: %lld us\n", (long long)best);
	OK(best < 3000, "also when nobody else has it open");
}

/* The worst case: the WAL is as long as it gets, and whoever opens first reads all of it. */
static void test_time_long_log(void)
{
	struct catalog *c;
	struct stat st;
	int64_t start;

	fresh(true);
	for (uint64_t i = 1; i < 199; i++)
		if (catalog_audit_mark(catalog, i, "h", "k", &test_err) < 0)
			test_bail("catalog_audit_mark");
	catalog_closep(&catalog);
	if (fstatat(home.dirfd, DB "-wal", &st, 0) < 0)
		test_bail("stat");
	OK(st.st_size > 400000, "control: a long WAL");
	start = clock_mono_us();
	OK(catalog_open(&home, &c, &test_err) == 0, "opened with it");
	printf("# with a WAL of %lld kB: %lld us\n", (long long)st.st_size >> 10,
		(long long)(clock_mono_us() - start));
	catalog_close(c);
}

static void run_sql(const char *sql)
{
	char path[300];
	sqlite3 *db;

	(void)snprintf(path, sizeof(path), "%s/" DB, home.path);
	if (sqlite3_open(path, &db) != SQLITE_OK ||
		sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		test_bail(sql);
	(void)sqlite3_close(db);
}

static void test_versions(void)
{
	struct catalog *c;

	fresh(true);
	catalog_closep(&catalog);
	run_sql("PRAGMA user_version = 7");
	OK(catalog_open(&home, &c, &test_err) < 0 && test_err.kind == ERR_INCOMPATIBLE,
		"a newer catalog is refused");
	EQ_STR(test_err.what, "the state directory has format version 7, this kosa8 uses version 2",
		"naming both versions");
	OK(test_err.hint[0], "with a hint");
	run_sql("PRAGMA user_version = 1");
	OK(catalog_open(&home, &c, &test_err) < 0 && strstr(test_err.what, "version 1, ") &&
			strstr(test_err.hint, "move this one away"),
		"an older one, too");
	run_sql("PRAGMA user_version = 2");
	EQ_INT(catalog_open(&home, &c, &test_err), 0, "control: its own is opened");
	catalog_close(c);
}

static void damage(const char *data, size_t len)
{
	catalog_closep(&catalog);
	(void)unlinkat(home.dirfd, DB "-wal", 0);
	(void)unlinkat(home.dirfd, DB "-shm", 0);
	test_write(&home, DB, data, len);
}

static void test_damaged(void)
{
	char noise[8192];
	struct catalog *c = NULL;
	struct sandbox_rows rows = {0};
	size_t len;

	fresh(true);
	damage("", 0);
	OK(catalog_open(&home, &c, &test_err) < 0 && test_err.kind == ERR_CORRUPT, "an empty file");
	memset(noise, 0x55, sizeof(noise));
	damage(noise, sizeof(noise));
	OK(catalog_open(&home, &c, &test_err) < 0 && test_err.kind == ERR_CORRUPT &&
			test_err.hint[0],
		"a file of something else");
	fresh(true);
	catalog_closep(&catalog);
	cleanup_str char *good = test_read(&home, DB, &len);
	memset(good + 4096, 0x55, len - 4096);
	damage(good, len);
	int r = catalog_open(&home, &c, &test_err);
	if (r == 0)
		r = catalog_sandbox_list(c, &rows, &test_err);
	OK(r < 0 && test_err.kind == ERR_CORRUPT, "all pages but the first are damaged");
	catalog_closep(&c);
	damage(good, 4096);
	r = catalog_open(&home, &c, &test_err);
	if (r == 0)
		r = catalog_sandbox_list(c, &rows, &test_err);
	OK(r < 0 && test_err.kind == ERR_CORRUPT, "cut behind the first page");
	catalog_closep(&c);
	if (unlinkat(home.dirfd, DB, 0) < 0 || mkdirat(home.dirfd, DB, 0700) < 0)
		test_bail("mkdir");
	OK(catalog_open(&home, &c, &test_err) < 0 && test_err.what[0], "a folder");
}

static void test_leftovers(void)
{
	struct catalog *c;
	struct stat st;

	fresh(false);
	test_write(&home, DB ".new", "half", 4);
	test_write(&home, DB ".new-journal", "half", 4);
	test_write(&home, DB "-wal", "of another catalog", 18);
	EQ_INT(catalog_open(&home, &c, &test_err), 0, "made although a maker was killed before");
	OK(fstatat(home.dirfd, DB ".new", &st, 0) < 0 &&
			fstatat(home.dirfd, DB ".new-journal", &st, 0) < 0,
		"its leftovers are gone");
	OK(fstatat(home.dirfd, DB, &st, 0) == 0 && (st.st_mode & 07777) == 0600,
		"the catalog is 0600");
	catalog_close(c);
}

static void test_no_space(void)
{
	struct catalog *c;
	struct stat st;
	int refused = 0, wrong = 0;

	for (rlim_t room = 0; room < 200 * 1024; room += 8192) {
		fresh(false);
		test_limit_files(room);
		int r = catalog_open(&home, &c, &test_err);
		test_limit_files(RLIM_INFINITY);
		if (r == 0) {
			catalog_close(c);
			continue;
		}
		refused++;
		wrong += test_err.kind != ERR_NO_SPACE;
		wrong += fstatat(home.dirfd, DB, &st, 0) == 0;
		wrong += fstatat(home.dirfd, DB ".new", &st, 0) == 0;
	}
	OK(refused > 0, "a full disk while the catalog is made");
	EQ_INT(wrong, 0, "gives ERR_NO_SPACE, and nothing is left");
	fresh(true);
	OK(catalog != NULL, "control: with space it is made");
}

static int writer(int n)
{
	struct home h;
	struct catalog *c;

	(void)n;
	if (home_open(true, &h, &test_err) < 0 || catalog_open(&h, &c, &test_err) < 0)
		return 1;
	for (uint64_t i = 1;; i++)
		if (catalog_audit_mark(c, i, "h", "k", &test_err) < 0 ||
			write(start_pipe[1], "x", 1) != 1)
			return 2;
}

static void test_killed(void)
{
	int bad = 0;

	fresh(false);
	for (int round = 0; round < 10; round++) {
		struct catalog *c;
		uint64_t done = 0, count = 0;
		char byte, hash[65], key[65];
		if (pipe(start_pipe) < 0)
			test_bail("pipe");
		pid_t pid = test_fork(writer, 0);
		(void)close(start_pipe[1]);
		for (int i = 0; i < 50 + round; i++)
			done += read(start_pipe[0], &byte, 1) == 1;
		(void)kill(pid, SIGKILL);
		bad += test_wait(pid) != 1000 + SIGKILL;
		while (read(start_pipe[0], &byte, 1) == 1)
			done++;
		(void)close(start_pipe[0]);
		if (catalog_open(&home, &c, &test_err) < 0 ||
			catalog_audit_get(c, &count, hash, key, &test_err) < 0)
			test_bail("after a kill");
		bad += count != done && count != done + 1;
		catalog_close(c);
	}
	EQ_INT(bad, 0, "what was written before a kill is there");
}

int main(void)
{
	test_setup();
	test_at_once();
	test_time();
	test_time_long_log();
	test_versions();
	test_damaged();
	test_leftovers();
	test_no_space();
	test_killed();
	catalog_closep(&catalog);
	home_release(&home);
	return tap_done();
}
