/* SPDX-License-Identifier: Apache-2.0 */
/* Appending: what is in the log, many processes at once, and refusals that leave it as it was. */
#include "store-test.h"

#include "base/clock.h"
#include "base/hash.h"

static struct home home;
static struct catalog *catalog;
static struct audit_actor actor;

static uint64_t begin(struct audit *a, const char *action)
{
	struct audit_event ev = {.action = action, .sandbox = "box", .actor = &actor};
	uint64_t seq = 0;

	if (audit_begin(a, &ev, &seq, &test_err) < 0)
		return 0;
	return seq;
}

static int keep_last(const json_t *record, void *ctx)
{
	json_t **last = ctx;

	json_decref(*last);
	*last = json_deep_copy(record);
	return 0;
}

static int count_record(const json_t *record, void *ctx)
{
	(void)record;
	(*(int *)ctx)++;
	return 0;
}

static int stop_at_once(const json_t *record, void *ctx)
{
	(void)count_record(record, ctx);
	return -1;
}

static const char *str(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static void test_content(void)
{
	cleanup_audit struct audit *a = NULL;
	cleanup_json *bound = json_pack("{s:s}", "image", "sha256:abc"), *last = NULL;
	cleanup_json *detail = json_pack("{s:[s,s]}", "argv", "python", "-c");
	struct audit_event ev = {.action = "run",
		.sandbox = "box",
		.sandbox_id = "0123456789abcdef",
		.actor = &actor,
		.bound = bound,
		.detail = detail};
	struct audit_report report;
	uint64_t seq = 0;
	int n = 0;

	OK(audit_verify(&home, catalog, &report, &test_err) == 0 && report.damage == AUDIT_OK &&
			report.count == 0,
		"a log that was never written holds");
	OK(audit_read(&home, 1, count_record, &n, &test_err) == 0 && n == 0, "and has no records");
	OK(audit_open(&home, catalog, &a, &test_err) == 0, "audit_open");
	EQ_INT(audit_begin(a, &ev, &seq, &test_err), 0, "audit_begin");
	EQ_INT(seq, 1, "the first record");
	EQ_INT(audit_end(a, &ev, seq, "ok", &test_err), 0, "audit_end");
	OK(audit_read(&home, 2, keep_last, &last, &test_err) == 0 && last, "audit_read from 2");
	EQ_INT(json_integer_value(json_object_get(last, "seq")), 2, "seq");
	EQ_INT(json_integer_value(json_object_get(last, "of")), 1, "of");
	EQ_STR(str(last, "phase"), "end", "phase");
	EQ_STR(str(last, "action"), "run", "action");
	EQ_STR(str(last, "result"), "ok", "result");
	EQ_STR(str(last, "sandbox"), "box", "sandbox");
	EQ_STR(str(last, "sandbox_id"), "0123456789abcdef", "sandbox_id");
	EQ_STR(str(json_object_get(last, "bound"), "image"), "sha256:abc", "bound");
	EQ_INT(json_array_size(json_object_get(json_object_get(last, "detail"), "argv")), 2,
		"detail");
	EQ_STR(str(json_object_get(last, "actor"), "kind"), actor.kind, "actor");
	OK(str(last, "time") && strlen(str(last, "time")) == 24, "time");
	OK(audit_read(&home, 1, count_record, &n, &test_err) == 0 && n == 2, "two records");
	OK(audit_read(&home, 1, stop_at_once, &n, &test_err) == 0 && n == 3,
		"a callback can stop the reading");
	OK(audit_verify(&home, catalog, &report, &test_err) == 0 && report.damage == AUDIT_OK &&
			report.count == 2 && !report.unsealed,
		"two records verify");
}

/* The hash, as anybody can compute it from the parsed record. */
static void test_hash(void)
{
	cleanup_json *last = NULL;
	cleanup_buf struct buf b = {0};
	char hash[SHA256_HEX_SIZE], stored[SHA256_HEX_SIZE];

	buf_init(&b, 1 << 20);
	OK(audit_read(&home, 2, keep_last, &last, &test_err) == 0 && last, "a record to hash");
	(void)snprintf(stored, sizeof(stored), "%s", str(last, "hash"));
	(void)json_object_del(last, "hash");
	json_put_canonical(&b, last);
	sha256_hex_of(b.data, b.len, hash);
	EQ_STR(stored, hash, "the hash is that of the canonical form without it");
}

static int appender(int n)
{
	struct home h;
	struct catalog *c;
	struct audit *a;

	if (home_open(true, &h, &test_err) < 0 || catalog_open(&h, &c, &test_err) < 0 ||
		audit_open(&h, c, &a, &test_err) < 0)
		return 1;
	actor.pid = getpid();
	for (int i = 0; i < 200; i++) {
		char action[32];
		(void)snprintf(action, sizeof(action), "act-%d-%d", n, i);
		if (begin(a, action) == 0) {
			printf("# %s: %s\n", action, test_err.what);
			return 2;
		}
	}
	audit_close(a);
	catalog_close(c);
	home_release(&h);
	return 0;
}

static int check_order(const json_t *record, void *ctx)
{
	int *next = ctx, n, i; /* [8]: what each process writes next; [8]: total */

	if (sscanf(str(record, "action"), "act-%d-%d", &n, &i) == 2 && n >= 0 && n < 8 &&
		next[n] == i) {
		next[n]++;
		next[8]++;
	}
	return 0;
}

static void test_many(void)
{
	struct audit_report report;
	pid_t pids[8];
	int next[9] = {0}, failed = 0;
	int64_t start = clock_mono_us();

	for (int i = 0; i < 8; i++)
		pids[i] = test_fork(appender, i);
	for (int i = 0; i < 8; i++)
		failed += test_wait(pids[i]) != 0;
	printf("# 1600 appends by 8 processes: %lld us each\n",
		(long long)(clock_mono_us() - start) / 1600);
	EQ_INT(failed, 0, "8 processes append 200 records each");
	OK(audit_verify(&home, catalog, &report, &test_err) == 0, "audit_verify");
	EQ_STR(audit_damage_name(report.damage), "ok", "the chain holds");
	EQ_INT(report.count, 1600, "and has every record");
	OK(audit_read(&home, 1, check_order, next, &test_err) == 0 && next[8] == 1600,
		"each process's records are there, in its order");
}

/* audit_begin() fails; log, head and mark stay as they were; afterwards it works again. */
static void check_refusal(struct audit *a, enum err_kind kind, const char *what)
{
	size_t log_before, log_after;
	cleanup_str char *log = test_read(&home, "audit/log.jsonl", &log_before);
	cleanup_str char *head = test_read(&home, "audit/head", NULL);
	uint64_t count, count_after;
	char hash[65], key[65];

	if (catalog_audit_get(catalog, &count, hash, key, &test_err) < 0)
		test_bail("catalog_audit_get");
	uint64_t seq = begin(a, "refused");
	test_limit_files(RLIM_INFINITY);
	OK(seq == 0, what);
	EQ_STR(err_kind_name(test_err.kind), err_kind_name(kind), "the kind of the error");
	cleanup_str char *log2 = test_read(&home, "audit/log.jsonl", &log_after);
	cleanup_str char *head2 = test_read(&home, "audit/head", NULL);
	OK(log_after == log_before && memcmp(log, log2, log_after) == 0, "the log is unchanged");
	EQ_STR(head2, head, "the head is unchanged");
	OK(catalog_audit_get(catalog, &count_after, hash, key, &test_err) == 0 &&
			count_after == count,
		"the mark is unchanged");
}

/* The head is made durable between appends, also while another process appends. */
static void test_settle(void)
{
	cleanup_audit struct audit *a = NULL, *other = NULL;
	struct audit_report report;
	char sig[AUDIT_SIG_SIZE], again[AUDIT_SIG_SIZE];

	if (audit_open(&home, catalog, &a, &test_err) < 0 ||
		audit_open(&home, catalog, &other, &test_err) < 0)
		test_bail("audit_open");
	OK(audit_settle(a, sig) < 0, "there is no head yet");
	OK(begin(a, "one") > 0, "a record");
	EQ_INT(audit_settle(a, sig), 0, "its head is made durable");
	EQ_INT(audit_settle(a, again), 0, "once more");
	EQ_STR(again, sig, "it is the same");
	audit_settled(a, sig);
	OK(begin(a, "two") > 0, "the next record");
	EQ_INT(audit_settle(a, again), 0, "has a head");
	OK(strcmp(again, sig) != 0, "of its own");
	audit_settled(a, again);
	OK(begin(other, "three") > 0 && begin(a, "four") > 0, "others append too");
	OK(audit_verify(&home, catalog, &report, &test_err) == 0 && report.damage == AUDIT_OK &&
			report.count == 4,
		"all of it holds");
}

static void test_full_disk(void)
{
	cleanup_audit struct audit *a = NULL;
	struct audit_report report;
	struct stat st;

	if (audit_open(&home, catalog, &a, &test_err) < 0)
		test_bail("audit_open");
	OK(begin(a, "control") > 0, "with space a record is written");
	if (fstatat(home.dirfd, "audit/log.jsonl", &st, 0) < 0)
		test_bail("stat");
	test_limit_files((rlim_t)st.st_size);
	check_refusal(a, ERR_NO_SPACE, "no byte of space: refused");
	test_limit_files((rlim_t)st.st_size + 100);
	check_refusal(a, ERR_NO_SPACE, "space for a part of a record: refused");
	OK(begin(a, "again") > 0, "with space again a record is written");
	OK(audit_verify(&home, catalog, &report, &test_err) == 0 && report.damage == AUDIT_OK &&
			!report.unsealed,
		"and the chain holds");
}

/* The log has space, the catalog has none: the log must be taken back. */
static void test_catalog_fails(void)
{
	cleanup_audit struct audit *a = NULL;
	struct audit_report report;

	if (audit_open(&home, catalog, &a, &test_err) < 0)
		test_bail("audit_open");
	OK(begin(a, "control") > 0, "control: the small log takes a record");
	/* The log is smaller than that, the catalog's log (WAL) is larger. */
	struct stat wal, log;
	if (fstatat(home.dirfd, "catalog.db-wal", &wal, 0) < 0 ||
		fstatat(home.dirfd, "audit/log.jsonl", &log, 0) < 0)
		test_bail("stat");
	OK(log.st_size + 1000 < wal.st_size, "the log is smaller than the catalog's WAL");
	test_limit_files((rlim_t)log.st_size + 1000);
	check_refusal(a, ERR_NO_SPACE, "the catalog cannot be written: refused");
	OK(begin(a, "again") > 0, "and afterwards it works");
	OK(audit_verify(&home, catalog, &report, &test_err) == 0 && report.damage == AUDIT_OK,
		"and the chain holds");
}

static void test_unwritable(void)
{
	cleanup_audit struct audit *a = NULL;

	if (audit_open(&home, catalog, &a, &test_err) < 0)
		test_bail("audit_open");
	OK(begin(a, "control") > 0, "control: a log that can be written");
	if (renameat(home.dirfd, "audit/log.jsonl", home.dirfd, "aside") < 0 ||
		mkdirat(home.dirfd, "audit/log.jsonl", 0700) < 0)
		test_bail("rename");
	OK(begin(a, "refused") == 0, "a folder in the log's place: refused");
	if (unlinkat(home.dirfd, "audit/log.jsonl", AT_REMOVEDIR) < 0 ||
		symlinkat("../aside", home.dirfd, "audit/log.jsonl") < 0)
		test_bail("symlink");
	OK(begin(a, "refused") == 0, "a symbolic link in the log's place: refused");
}

static void test_modes(void)
{
	struct stat st;

	OK(fstatat(home.dirfd, "audit/key", &st, 0) == 0 && (st.st_mode & 07777) == 0600,
		"the key is 0600");
	OK(fstatat(home.dirfd, "audit/log.jsonl", &st, 0) == 0 && (st.st_mode & 07777) == 0600,
		"the log is 0600");
	OK(fstatat(home.dirfd, "audit/head", &st, 0) == 0 && st.st_size == 512,
		"the head is one sector");
}

int main(void)
{
	static void (*const tests[])(void) = {
		test_many, test_settle, test_full_disk, test_catalog_fails, test_unwritable};

	test_setup();
	audit_actor_self(&actor);
	test_home(&home, &catalog);
	test_content();
	test_hash();
	test_modes();
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		catalog_closep(&catalog);
		home_release(&home);
		test_home(&home, &catalog);
		tests[i]();
	}
	catalog_closep(&catalog);
	home_release(&home);
	return tap_done();
}
