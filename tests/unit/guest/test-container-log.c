/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/container-log.h"

#include "base/fd.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"

#define READ_MAX (LOG_HEADER_SIZE + LOG_DATA_MAX)

static char folder[] = "/tmp/test-container-log.XXXXXX";
static int dirfd = -1;

static void fresh(struct container_log *l)
{
	struct err e;

	for (size_t i = 0; i < 3; i++)
		(void)unlinkat(dirfd, (const char *[]){"log", "log.1", "log.next"}[i], 0);
	container_log_init(l, dirfd);
	if (container_log_open(l, &e) < 0)
		OK(false, e.what);
}

/* What a reader sees until the end, as text: O and E for data, L for LOST; -1 at a fault. */
struct seen {
	char text[4096];
	size_t len;
	uint64_t records, lost, bytes, first_ns, last_ns;
	int result;
};

static void see_records(struct seen *s, const struct buf *b)
{
	struct log_record r;
	int n;

	for (size_t at = 0; at < b->len; at += (size_t)n) {
		n = log_record_parse(b->data + at, b->len - at, &r);
		if (n <= 0) {
			s->result = -EPROTO;
			return;
		}
		s->records++;
		s->lost += r.which == LOG_LOST;
		s->bytes += r.len;
		s->first_ns = s->first_ns ? s->first_ns : r.wall_ns;
		s->last_ns = r.wall_ns;
		int room = (int)(sizeof(s->text) - s->len);
		int wrote = snprintf(s->text + s->len, (size_t)room, "%c%.*s",
			r.which == LOG_LOST	? 'L'
			: r.which == LOG_STDERR ? 'E'
						: 'O',
			r.len < 16 ? (int)r.len : 16, (const char *)r.data);
		s->len += wrote < room ? (size_t)wrote : (size_t)room - 1;
	}
}

static struct seen read_on(
	const struct container_log *l, struct container_log_reader *r, uint64_t since_ns)
{
	static struct seen s;
	int n;

	s = (struct seen){0};
	do {
		cleanup_buf struct buf b = {0};

		buf_init(&b, READ_MAX);
		n = container_log_read(l, r, since_ns, &b, READ_MAX);
		see_records(&s, &b);
	} while (n > 0 && s.result == 0);
	if (n < 0)
		s.result = n;
	return s;
}

static struct seen read_all(const struct container_log *l, uint64_t since_ns)
{
	struct container_log_reader r;

	container_log_reader_init(&r);
	struct seen s = read_on(l, &r, since_ns);
	container_log_reader_release(&r);
	return s;
}

static void put(struct container_log *l, uint64_t at, const char *text)
{
	container_log_append(l, at, LOG_STDOUT, text, strlen(text));
}

/* As many records as fill a bit more than half a file, numbered from *at. */
static void fill_half(struct container_log *l, uint64_t *at)
{
	static char data[LOG_DATA_MAX];

	for (size_t i = 0; i < LOG_FILE_MAX / LOG_DATA_MAX / 2 + 4; i++)
		container_log_append(l, ++*at, LOG_STDOUT, data, sizeof(data));
}

static void test_order(void)
{
	struct container_log l;
	struct container_log_reader r;

	fresh(&l);
	container_log_reader_init(&r);
	EQ_STR(read_on(&l, &r, 0).text, "", "an empty log");
	put(&l, 10, "a");
	container_log_append(&l, 20, LOG_STDERR, "b", 1);
	put(&l, 30, "c");
	EQ_STR(read_on(&l, &r, 0).text, "OaEbOc", "both streams, in order");
	EQ_STR(read_on(&l, &r, 0).text, "", "once only");
	put(&l, 40, "d");
	EQ_STR(read_on(&l, &r, 0).text, "Od", "and what comes after");
	EQ_STR(read_all(&l, 25).text, "OcOd", "since a time");
	EQ_STR(read_all(&l, 50).text, "", "since a time to come");
	container_log_reader_release(&r);
	container_log_close(&l);
	EQ_STR(read_all(&l, 0).text, "OaEbOcOd", "of a log that is closed");
	put(&l, 60, "lost");
	struct err e;
	EQ_INT(container_log_open(&l, &e), 0, "opened again");
	put(&l, 70, "e");
	EQ_STR(read_all(&l, 0).text, "OaEbOcOdLOe", "and told what was lost meanwhile");
	container_log_close(&l);
}

static void test_large_record(void)
{
	static char data[3 * LOG_DATA_MAX + 7];
	struct container_log l;

	fresh(&l);
	container_log_append(&l, 1, LOG_STDOUT, data, sizeof(data));
	struct seen s = read_all(&l, 0);
	EQ_INT(s.records, 4, "cut into records that are small enough");
	EQ_INT(s.bytes, sizeof(data), "of all of it");
	container_log_close(&l);
}

static void test_rotation(void)
{
	struct container_log l;
	struct container_log_reader slow, late;
	struct stat st;
	uint64_t at = 0;

	fresh(&l);
	container_log_reader_init(&slow);
	container_log_reader_init(&late);
	put(&l, ++at, "first");
	EQ_STR(read_on(&l, &slow, 0).text, "Ofirst", "a reader at the beginning");
	EQ_STR(read_on(&l, &late, 0).text, "Ofirst", "and another one");
	fill_half(&l, &at);
	fill_half(&l, &at);
	EQ_INT(l.generation, 1, "a second file was begun");
	struct seen s = read_on(&l, &slow, 0);
	EQ_INT(s.result, 0, "read across the files");
	OK(s.lost == 0 && s.first_ns == 2 && s.last_ns == at && s.records == at - 1, "all of it");
	s = read_all(&l, 0);
	OK(s.lost == 0 && s.records == at && s.first_ns == 1, "and by a new reader");
	while (l.generation < 5)
		fill_half(&l, &at);
	s = read_on(&l, &late, 0);
	OK(s.lost == 1 && s.last_ns == at, "who fell behind is told once, and reads to the end");
	OK(s.bytes > LOG_FILE_MAX / 2 && s.first_ns == 2,
		"after what was in the file that it had kept open");
	s = read_all(&l, 0);
	OK(s.lost == 1 && s.text[0] == 'L' && s.last_ns == at, "a new reader is told, too");
	OK(fstatat(dirfd, "log", &st, 0) == 0 && st.st_size <= LOG_FILE_MAX, "bounded");
	OK(fstatat(dirfd, "log.1", &st, 0) == 0 && st.st_size <= LOG_FILE_MAX &&
			st.st_size > LOG_FILE_MAX / 2,
		"both files");
	OK(fstatat(dirfd, "log.next", &st, 0) < 0, "and nothing else");
	container_log_reader_release(&slow);
	container_log_reader_release(&late);
	container_log_close(&l);
}

static void test_small_steps(void)
{
	struct container_log l;
	struct container_log_reader r;
	cleanup_buf struct buf b = {0};

	fresh(&l);
	for (uint64_t i = 0; i < 10; i++)
		put(&l, i + 1, "0123456789abcdef");
	container_log_reader_init(&r);
	buf_init(&b, 1000);
	EQ_INT(container_log_read(&l, &r, 0, &b, 100), 1, "there is more than there is room for");
	EQ_INT(b.len, 96, "whole records only");
	EQ_INT(container_log_read(&l, &r, 0, &b, 31), 1, "no room for one");
	EQ_INT(b.len, 96, "gives none");
	EQ_INT(container_log_read(&l, &r, 0, &b, 1000), 1, "the rest");
	EQ_INT(b.len, 320, "of it");
	EQ_INT(container_log_read(&l, &r, 0, &b, 1000), 0, "the end");
	container_log_reader_release(&r);
	container_log_close(&l);
}

static void test_cut_end(void)
{
	struct container_log l;
	struct err e;

	for (off_t cut = 1; cut < LOG_HEADER_SIZE + 6; cut++) {
		fresh(&l);
		put(&l, 1, "whole");
		off_t whole = (off_t)l.size;
		put(&l, 2, "broken");
		if (ftruncate(l.fd, whole + cut) < 0)
			OK(false, "truncate");
		container_log_close(&l);
		if (strcmp(read_all(&l, 0).text, "Owhole") != 0)
			OK(false, "a reader stops at a cut record");
		container_log_init(&l, dirfd);
		if (container_log_open(&l, &e) < 0 || l.size != (uint64_t)whole)
			OK(false, "which is cut off");
		put(&l, 3, "next");
		if (strcmp(read_all(&l, 0).text, "OwholeOnext") != 0)
			OK(false, "and written over");
		container_log_close(&l);
	}
	OK(true, "a record cut at every place");
	fresh(&l);
	put(&l, 1, "good");
	if (fd_pwrite_all(l.fd, "this is no record at all", 24, (off_t)l.size) < 0)
		OK(false, "write");
	EQ_STR(read_all(&l, 0).text, "Ogood", "what is no record ends the file, too");
	container_log_close(&l);
}

/* The limit on a file's size stands for the full disk: a write stops short, the next one fails. */
static void limit_files(rlim_t bytes)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) < 0)
		OK(false, "getrlimit");
	limit.rlim_cur = bytes;
	if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
		OK(false, "setrlimit");
}

static void test_full_disk(void)
{
	struct container_log l;

	fresh(&l);
	put(&l, 1, "before");
	limit_files(l.size + LOG_HEADER_SIZE + 2);
	put(&l, 2, "stops short");
	put(&l, 3, "too");
	EQ_STR(read_all(&l, 0).text, "Obefore", "no part of what did not fit");
	OK(l.lost, "remembered");
	limit_files(RLIM_INFINITY);
	put(&l, 4, "after");
	put(&l, 5, "more");
	EQ_STR(read_all(&l, 0).text, "ObeforeLOafterOmore", "said once when there is space again");
	container_log_close(&l);
}

static void test_full_disk_at_rotation(void)
{
	struct container_log l;
	uint64_t at = 0;

	fresh(&l);
	while (l.size + LOG_DATA_MAX + LOG_HEADER_SIZE <= LOG_FILE_MAX)
		container_log_append(&l, ++at, LOG_STDOUT, (char[LOG_DATA_MAX]){0}, LOG_DATA_MAX);
	limit_files(0);
	fill_half(&l, &(uint64_t){1000});
	limit_files(RLIM_INFINITY);
	struct seen s = read_all(&l, 0);
	OK(s.records == at && s.lost == 0 && l.generation == 0, "nothing that was there is lost");
	put(&l, 9999, "x");
	s = read_all(&l, 0);
	OK(s.records == at + 2 && s.lost == 1 && s.last_ns == 9999, "what was not is told");
	container_log_close(&l);
}

int main(void)
{
	if (!mkdtemp(folder) || signal(SIGXFSZ, SIG_IGN) == SIG_ERR)
		return 1;
	dirfd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	test_order();
	test_large_record();
	test_rotation();
	test_small_steps();
	test_cut_end();
	test_full_disk();
	test_full_disk_at_rotation();
	(void)fd_close(dirfd);
	EQ_INT(file_remove_tree(AT_FDCWD, folder), 0, "clean up");
	return tap_done();
}
