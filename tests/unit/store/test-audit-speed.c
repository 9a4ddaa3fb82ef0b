/* SPDX-License-Identifier: Apache-2.0 */
/* A log of 100,000 records is verified in bounded memory and in no time to speak of. The times are
 * printed; the bounds are wide, for busy machines. */
#include "store-test.h"

#include "base/clock.h"
#include "store/audit-key.h"
#include "store/audit-record.h"

#include <sys/resource.h>

#define RECORDS 100000
#if defined(__SANITIZE_ADDRESS__)
#define PEAK_MAX_KB (256 * 1024) /* the sanitizer keeps what is freed */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PEAK_MAX_KB (256 * 1024)
#endif
#endif
#ifndef PEAK_MAX_KB
#define PEAK_MAX_KB 4096
#endif

static struct home home;
static struct catalog *catalog;
static struct audit_actor actor;

/* As audit_begin() does, but without making each one durable. */
static void make_log(void)
{
	struct audit_event ev = {.action = "run", .sandbox = "code-runner", .actor = &actor};
	cleanup_json *detail = json_pack("{s:[s,s,s]}", "argv", "python", "-c", "print(6*7)");
	cleanup_buf struct buf b = {0};
	struct audit_key key = {0};
	struct audit_head head;
	char hash[65] = AUDIT_FIRST_PREV;

	buf_init(&b, 256u << 20);
	ev.detail = detail;
	for (uint64_t i = 1; i <= RECORDS; i++) {
		struct audit_fields f = {.seq = i, .phase = "begin", .prev = hash};
		if (audit_record_put(&b, &ev, &f, hash, &test_err) < 0)
			test_bail("audit_record_put");
	}
	test_write(&home, "audit/log.jsonl", b.data, b.len);
	cleanup_fd int dir = dir_open(home.dirfd, "audit", false, 0);
	if (audit_key_make(dir, &key, &test_err) < 0 ||
		audit_head_sign(&key, RECORDS, hash, &head, &test_err) < 0 ||
		audit_head_write(dir, &head, &test_err) < 0 ||
		catalog_audit_mark(catalog, RECORDS, hash, key.public_hex, &test_err) < 0)
		test_bail("signing");
	audit_key_release(&key);
	printf("# a log of %zu MB\n", b.len >> 20);
}

static int maker(int n)
{
	(void)n;
	make_log();
	return 0;
}

static long peak_kb(void)
{
	struct rusage u;

	(void)getrusage(RUSAGE_SELF, &u);
	return u.ru_maxrss;
}

static int count_record(const json_t *record, void *ctx)
{
	(void)record;
	(*(int *)ctx)++;
	return 0;
}

static void test_append(void)
{
	struct audit *a;
	struct audit_event ev = {.action = "run", .sandbox = "box", .actor = &actor};
	uint64_t seq;

	if (audit_open(&home, catalog, &a, &test_err) < 0)
		test_bail("audit_open");
	int64_t start = clock_mono_us();
	OK(audit_begin(a, &ev, &seq, &test_err) == 0, "the first append to a long log");
	printf("# the first append took %lld us\n", (long long)(clock_mono_us() - start));
	start = clock_mono_us();
	int failed = 0;
	for (int i = 0; i < 50; i++)
		failed += audit_begin(a, &ev, &seq, &test_err) < 0;
	printf("# an append took %lld us\n", (long long)(clock_mono_us() - start) / 50);
	EQ_INT(failed, 0, "fifty more");
	audit_close(a);
}

int main(void)
{
	struct audit_report r;
	int n = 0;

	test_setup();
	audit_actor_self(&actor);
	test_home(&home, NULL);
	/* In a child: this process's peak is to be that of the verifying. SQLite connections do not
	 * cross a fork. */
	pid_t pid = fork();
	if (pid == 0) {
		if (catalog_open(&home, &catalog, &test_err) < 0)
			return 1;
		return maker(0);
	}
	EQ_INT(test_wait(pid), 0, "a log of 100,000 records was made");
	if (catalog_open(&home, &catalog, &test_err) < 0)
		test_bail("catalog_open");
	long before_kb = peak_kb();
	int64_t start = clock_mono_us();
	OK(audit_verify(&home, catalog, &r, &test_err) == 0 && r.damage == AUDIT_OK, "it holds");
	int64_t took = clock_mono_us() - start;
	EQ_INT(r.count, RECORDS, "with all its records");
	printf("# verified in %lld ms, %ld kB more memory\n", (long long)took / 1000,
		peak_kb() - before_kb);
	OK(took < 10000000, "in a bounded time");
	OK(peak_kb() - before_kb < PEAK_MAX_KB, "in bounded memory");
	start = clock_mono_us();
	OK(audit_read(&home, RECORDS - 9, count_record, &n, &test_err) == 0 && n == 10,
		"the last ten are read");
	printf("# in %lld ms\n", (long long)(clock_mono_us() - start) / 1000);
	test_append();
	catalog_close(catalog);
	home_release(&home);
	return tap_done();
}
