/* SPDX-License-Identifier: Apache-2.0 */
/* What a crash leaves is no alarm and is sealed by the next append, and nothing else is. */
#include "store-test.h"

#include "store/audit-key.h"

#include <errno.h>

#define LOG "audit/log.jsonl"
#define HEAD "audit/head"
#define RECORDS 5

static struct home home;
static struct catalog *catalog;
static struct audit *audit;
static struct audit_actor actor;

/* The log as it was at each count, and the head. */
static char *logs[16], *heads[16];
static size_t log_lens[16];
static struct {
	uint64_t count;
	char hash[65], key[65];
} marks[16];

static int append(void)
{
	struct audit_event ev = {.action = "run", .sandbox = "box", .actor = &actor};
	uint64_t seq;

	return audit_begin(audit, &ev, &seq, &test_err);
}

static void fresh_log(void)
{
	audit_closep(&audit);
	catalog_closep(&catalog);
	home_release(&home);
	test_home(&home, &catalog);
	if (audit_open(&home, catalog, &audit, &test_err) < 0)
		test_bail("audit_open");
	marks[0].hash[0] = marks[0].key[0] = '0'; /* never marked: count 0 */
	for (int i = 1; i <= RECORDS; i++) {
		if (append() < 0)
			test_bail("append");
		free(logs[i]);
		free(heads[i]);
		logs[i] = test_read(&home, LOG, &log_lens[i]);
		heads[i] = test_read(&home, HEAD, NULL);
		if (catalog_audit_get(
			    catalog, &marks[i].count, marks[i].hash, marks[i].key, &test_err) < 0)
			test_bail("catalog_audit_get");
	}
}

/* The log with n records, then tail; the head and the catalog as they were at other counts. */
static void set(int n, const char *tail, int head, int mark)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, 1 << 20);
	buf_put(&b, logs[n], log_lens[n]);
	buf_put(&b, tail, strlen(tail));
	test_write(&home, LOG, b.data, b.len);
	if (head)
		test_write(&home, HEAD, heads[head], strlen(heads[head]));
	else if (unlinkat(home.dirfd, HEAD, 0) < 0 && errno != ENOENT)
		test_bail("unlink");
	if (catalog_audit_mark(
		    catalog, marks[mark].count, marks[mark].hash, marks[mark].key, &test_err) < 0)
		test_bail("catalog_audit_mark");
}

static struct audit_report verify(void)
{
	struct audit_report r;

	if (audit_verify(&home, catalog, &r, &test_err) < 0)
		test_bail("audit_verify");
	return r;
}

static int keep_recovered(const json_t *record, void *ctx)
{
	json_t **found = ctx;

	if (strcmp(json_string_value(json_object_get(record, "action")), "recovered") == 0) {
		json_decref(*found);
		*found = json_deep_copy(record);
	}
	return 0;
}

/* A crash: no alarm, the next append seals it and says so. */
static void expect_sealed(uint64_t count, const char *member, long long value, const char *what)
{
	cleanup_json *recovered = NULL;
	struct audit_report r = verify();

	OK(r.damage == AUDIT_OK && r.unsealed && r.count == count, what);
	if (r.damage != AUDIT_OK)
		printf("# %s\n", r.text);
	OK(append() == 0, "the next append succeeds");
	r = verify();
	OK(r.damage == AUDIT_OK && !r.unsealed, "and seals it");
	EQ_INT(r.count, count + 2, "with a record of its own");
	if (audit_read(&home, 1, keep_recovered, &recovered, &test_err) < 0)
		test_bail("audit_read");
	json_t *detail = json_object_get(recovered, "detail");
	EQ_INT(json_integer_value(json_object_get(detail, member)), value, member);
}

static void expect_alarm(
	enum audit_damage damage, uint64_t first_bad, bool refused, const char *what)
{
	struct audit_report r = verify();

	if (!OK(r.damage == damage && r.first_bad == first_bad && !r.unsealed, what))
		printf("# %s at %llu: %s\n", audit_damage_name(r.damage),
			(unsigned long long)r.first_bad, r.text);
	if (refused)
		OK(append() < 0 && test_err.kind == ERR_CORRUPT, "nothing is appended to it");
}

static void test_torn(void)
{
	set(5, "{\"action\":\"run\",\"act", 5, 5);
	expect_sealed(5, "torn_bytes", 20, "a torn last line");
	fresh_log();
	set(5, "{", 5, 5);
	expect_sealed(5, "torn_bytes", 1, "one byte of a line");
	fresh_log();
	cleanup_str char *whole = strndup(logs[5] + log_lens[4], log_lens[5] - log_lens[4] - 1);
	set(4, whole, 4, 4);
	expect_sealed(4, "torn_bytes", (long long)strlen(whole), "all but the newline");
}

static void test_ahead(void)
{
	fresh_log();
	set(5, "", 4, 4);
	expect_sealed(5, "sealed", 5, "a record ahead of head and catalog");
	fresh_log();
	set(5, "", 5, 4);
	EQ_INT(verify().damage, AUDIT_OK, "the head ahead of the catalog is no damage");
	OK(!verify().unsealed, "and needs no seal");
	OK(append() == 0 && verify().count == 6, "and the log goes on without one");
	fresh_log();
	set(5, "", 4, 5);
	struct audit_report r = verify();
	OK(r.damage == AUDIT_OK && r.unsealed, "only the head lost (power): no alarm");
	OK(append() == 0 && verify().count == 6, "and the log goes on");
	OK(append() == 0 && verify().damage == AUDIT_OK, "and on");
}

/* The first append of all has no head before it. */
static void test_first(void)
{
	fresh_log();
	set(1, "", 0, 0);
	expect_sealed(1, "sealed", 1, "the first record has no head yet");
	fresh_log();
	log_lens[0] = 0;
	logs[0] = logs[1];
	set(0, "{\"act", 0, 0);
	expect_sealed(0, "torn_bytes", 5, "the first record is torn");
	logs[0] = NULL;
}

static void test_no_crash(void)
{
	fresh_log();
	set(5, "", 3, 3);
	expect_alarm(AUDIT_UNSIGNED, 4, true, "two records ahead of the head");
	set(5, "", 3, 5);
	expect_alarm(AUDIT_UNSIGNED, 4, true, "the head alone put back by two");
	set(5, "{\"torn", 4, 4);
	expect_alarm(AUDIT_UNSIGNED, 5, true, "a record ahead, and a torn one");
	set(5, "no record\n", 5, 5);
	expect_alarm(AUDIT_UNSIGNED, 6, false, "a whole line that is no record");
	set(5, "", 0, 5);
	expect_alarm(AUDIT_BAD_HEAD, 0, true, "the head gone, the catalog knows of one");
	set(5, "", 0, 0);
	expect_alarm(AUDIT_BAD_HEAD, 0, true, "five records without a head");
	set(5, "", 5, 5);
	EQ_INT(verify().damage, AUDIT_OK, "control: put back, it holds");
	EQ_INT(append(), 0, "control: and takes a record");
}

static int pipe_fds[2];

static int appender(int n)
{
	struct home h;
	struct catalog *c;
	struct audit *a;

	(void)n;
	if (home_open(true, &h, &test_err) < 0 || catalog_open(&h, &c, &test_err) < 0 ||
		audit_open(&h, c, &a, &test_err) < 0)
		return 1;
	for (;;) {
		struct audit_event ev = {.action = "run", .actor = &actor};
		uint64_t seq;
		if (audit_begin(a, &ev, &seq, &test_err) < 0 || write(pipe_fds[1], "x", 1) != 1)
			return 2;
	}
}

/* Killed in the middle of whatever it does: never an alarm, and never a confirmed record lost. */
static void test_killed(void)
{
	uint64_t confirmed = 0;
	int alarms = 0, lost = 0, stuck = 0;

	audit_closep(&audit);
	catalog_closep(&catalog);
	home_release(&home);
	test_home(&home, NULL);
	for (int round = 0; round < 25; round++) {
		struct catalog *c;
		struct audit_report r;
		char byte;
		if (pipe(pipe_fds) < 0)
			test_bail("pipe");
		pid_t pid = test_fork(appender, 0);
		(void)close(pipe_fds[1]);
		for (int i = 0; i <= round % 7; i++)
			confirmed += read(pipe_fds[0], &byte, 1) == 1;
		/* It is at its next record, somewhere. */
		(void)kill(pid, SIGKILL);
		EQ_INT(test_wait(pid), 1000 + SIGKILL, "killed at work");
		while (read(pipe_fds[0], &byte, 1) == 1)
			confirmed++;
		(void)close(pipe_fds[0]);
		if (catalog_open(&home, &c, &test_err) < 0 ||
			audit_verify(&home, c, &r, &test_err) < 0) {
			stuck++;
			printf("# %s\n", test_err.what);
			continue;
		}
		alarms += r.damage != AUDIT_OK;
		if (r.damage != AUDIT_OK)
			printf("# %s\n", r.text);
		lost += r.count < confirmed;
		catalog_close(c);
	}
	EQ_INT(stuck, 0, "the log can always be read");
	EQ_INT(alarms, 0, "no alarm");
	EQ_INT(lost, 0, "no confirmed record is lost");
	OK(confirmed > 25, "control: records were written");
}

int main(void)
{
	test_setup();
	audit_actor_self(&actor);
	fresh_log();
	test_torn();
	test_ahead();
	test_first();
	test_no_crash();
	test_killed();
	audit_closep(&audit);
	catalog_closep(&catalog);
	home_release(&home);
	for (int i = 0; i < 16; i++) {
		free(logs[i]);
		free(heads[i]);
	}
	return tap_done();
}
