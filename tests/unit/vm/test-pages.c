/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of a child process that maps a RAM file as QEMU does: private and writable. */
#include "vm/page-scan.h"
#include "vm/pages.h"

#include "base/buf.h"
#include "base/fd.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 2048u
#define BYTES ((size_t)PAGES * RAM_PAGE)

static struct err e;

struct child {
	pid_t pid;
	int go, answer;	       /* a byte to go makes it check its memory and answer y or n */
	unsigned char *shared; /* what its memory must be: PAGES pages */
};

static int temp(void)
{
	char name[] = "/tmp/kosa8-pages.XXXXXX";
	int fd = mkstemp(name);

	(void)unlink(name);
	return fd;
}

/* The template: page i begins with i, every 8th is a hole. */
static int make_ram(void)
{
	int fd = temp();

	if (fd < 0 || ftruncate(fd, BYTES) < 0)
		return -1;
	for (uint32_t i = 0; i < PAGES; i++)
		if (i % 8 && fd_pwrite_all(fd, &i, sizeof(i), (off_t)i * RAM_PAGE) < 0)
			return -1;
	return fd;
}

static void live(unsigned char *ram, const unsigned char *want, int go, int answer)
{
	char byte;

	for (;;) {
		if (read(go, &byte, 1) != 1)
			_exit(0);
		byte = memcmp(ram, want, BYTES) == 0 ? 'y' : 'n';
		if (write(answer, &byte, 1) != 1)
			_exit(1);
	}
}

/* change: what the child does to its mapping before it answers for the first time; may be NULL. */
static bool start(struct child *c, int ram_fd, void (*change)(unsigned char *ram), bool split)
{
	int go[2], answer[2];
	char byte;

	c->shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (c->shared == MAP_FAILED || pipe2(go, O_CLOEXEC) < 0 || pipe2(answer, O_CLOEXEC) < 0)
		return false;
	if ((c->pid = fork()) == 0) {
		(void)close(go[1]);
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		unsigned char *ram =
			mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, ram_fd, 0);
		if (ram == MAP_FAILED ||
			(split && madvise(ram + BYTES / 2, BYTES / 4, MADV_DONTDUMP) < 0))
			_exit(1);
		(void)*(volatile unsigned char *)(ram + 9 * RAM_PAGE); /* read: not a change */
		if (change)
			change(ram);
		if (write(answer[1], "r", 1) != 1)
			_exit(1);
		live(ram, c->shared, go[0], answer[1]);
	}
	(void)close(go[0]);
	(void)close(answer[1]);
	c->go = go[1];
	c->answer = answer[0];
	return read(c->answer, &byte, 1) == 1 && byte == 'r';
}

static bool is_as_wanted(struct child *c)
{
	char byte = 'n';

	return write(c->go, "?", 1) == 1 && read(c->answer, &byte, 1) == 1 && byte == 'y';
}

static void stop(struct child *c)
{
	(void)kill(c->pid, SIGKILL);
	(void)waitpid(c->pid, NULL, 0);
	(void)close(c->go);
	(void)close(c->answer);
	(void)munmap(c->shared, BYTES);
}

/* Changes: a lone page, a run over the split, zeros over data, data over a hole, the last page. */
static void change(unsigned char *ram)
{
	memset(ram + 5 * RAM_PAGE, 0xa5, RAM_PAGE);
	memset(ram + (PAGES / 2 - 20) * RAM_PAGE, 0x5a, 40 * RAM_PAGE);
	memset(ram + 101 * RAM_PAGE, 0, 3 * RAM_PAGE);
	memset(ram + 102 * RAM_PAGE, 7, 1);
	memset(ram + 200 * RAM_PAGE, 1, 1);
	memset(ram + (PAGES - 1) * RAM_PAGE, 2, RAM_PAGE);
}
#define CHANGED (1 + 40 + 3 + 1 + 1)

static void expected(unsigned char *ret, int ram_fd)
{
	if (fd_pread_full(ram_fd, ret, BYTES, 0) != (ssize_t)BYTES)
		memset(ret, 0xff, BYTES);
	change(ret);
}

static uint64_t count(pid_t pid, int ram_fd, bool plain)
{
	struct ram_map map;
	cleanup_page_scan struct page_scan *scan = NULL;
	struct ram_run run;
	uint64_t pages = 0;

	if (ram_map_find(pid, ram_fd, &map, &e) < 0 || page_scan_open(&map, plain, &scan, &e) < 0)
		return 0;
	while (page_scan_next(scan, &run, &e) > 0)
		pages += run.pages;
	return pages;
}

static void round_trip(int ram, bool split)
{
	struct child a, b;
	struct pages_info info;
	cleanup_fd int file = temp();

	OK(start(&a, ram, change, split), split ? "RAM in several mappings" : "RAM in one mapping");
	EQ_INT(count(a.pid, ram, true), CHANGED, "the changed pages by pagemap");
	EQ_INT(count(a.pid, ram, false), CHANGED, "and by the kernel's scan, where it has one");
	EQ_INT(pages_save(a.pid, ram, file, &info, &e), 0, "they are saved");
	EQ_INT(info.pages, CHANGED, "all of them");
	EQ_INT(info.zero_pages, 2, "two are all zero");
	EQ_INT(info.file_bytes, lseek(file, 0, SEEK_END), "the size of the file");
	OK(start(&b, ram, NULL, split), "another process on the same RAM");
	expected(b.shared, ram);
	OK(!is_as_wanted(&b), "control: its memory is the template's");
	EQ_INT(pages_load(file, b.pid, ram, &e), 0, "the pages are loaded");
	OK(is_as_wanted(&b), "its memory is that of the first");
	EQ_INT(count(b.pid, ram, false), CHANGED, "and a save of it finds the same pages");
	stop(&a);
	stop(&b);
}

static void scatter(unsigned char *ram)
{
	for (uint32_t i = 0; i < PAGES; i += 2)
		ram[i * RAM_PAGE] = i % 6 ? 3 : 0;
}

static void many_runs(int ram)
{
	struct child a, b;
	struct pages_info info;
	cleanup_fd int file = temp();

	OK(start(&a, ram, scatter, false), "every other page is changed");
	EQ_INT(pages_save(a.pid, ram, file, &info, &e), 0, "saved");
	EQ_INT(info.pages, PAGES / 2, "all of them");
	OK(start(&b, ram, NULL, true), "a process with other mappings");
	OK(fd_pread_full(ram, b.shared, BYTES, 0) == (ssize_t)BYTES, "the template");
	scatter(b.shared);
	EQ_INT(pages_load(file, b.pid, ram, &e), 0, "loaded");
	OK(is_as_wanted(&b), "the same memory");
	stop(&a);
	stop(&b);
}

static void nothing(int ram)
{
	struct child c;
	struct pages_info info;
	cleanup_fd int file = temp();

	OK(start(&c, ram, NULL, false), "a process that changed nothing");
	EQ_INT(pages_save(c.pid, ram, file, &info, &e), 0, "saved");
	EQ_INT(info.pages, 0, "no page");
	EQ_INT(pages_load(file, c.pid, ram, &e), 0, "and loaded");
	stop(&c);
}

static void corrupt(int ram)
{
	static const struct {
		off_t at;
		size_t len;
		uint64_t value;
		const char *what;
	} cases[] = {
		{0, 1, 'x', "another magic"},
		{8, 8, BYTES * 2, "another amount of RAM"},
		{16, 8, 1ull << 60, "very many runs"},
		{16, 8, 2, "fewer runs"},
		{24, 8, 1ull << 60, "very many pages"},
		{24, 8, 1, "fewer pages"},
		{32, 8, 0, "data over the header"},
		{32, 8, 4097, "data at an odd place"},
		{32, 8, 1ull << 63, "data far away"},
		{64, 8, 1ull << 60, "a run outside RAM"},
		{64, 8, ~0ull, "a run that wraps around"},
		{64, 8, PAGES - 1, "a run after its successor"},
		{72, 4, 0, "an empty run"},
		{72, 4, ~0u, "a run over the end of RAM"},
		{72, 4, 200, "a run over the next"},
		{76, 4, 2, "an unknown kind"},
		{76, 4, 1, "data turned into zeros"},
	};
	struct child c, untouched;
	struct pages_info info;
	cleanup_fd int file = temp();
	unsigned char saved[4096];

	OK(start(&c, ram, change, false), "a process");
	EQ_INT(pages_save(c.pid, ram, file, &info, &e), 0, "saved");
	stop(&c);
	EQ_INT(fd_pread_full(file, saved, sizeof(saved), 0), sizeof(saved), "the file's beginning");
	OK(start(&untouched, ram, NULL, false), "another process");
	OK(fd_pread_full(ram, untouched.shared, BYTES, 0) == (ssize_t)BYTES, "the template");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		EQ_INT(fd_pwrite_all(file, &cases[i].value, cases[i].len, cases[i].at), 0,
			"damage");
		OK(pages_load(file, untouched.pid, ram, &e) < 0 && e.kind == ERR_CORRUPT,
			cases[i].what);
		EQ_INT(fd_pwrite_all(file, saved, sizeof(saved), 0), 0, "mended");
	}
	off_t size = lseek(file, 0, SEEK_END);
	EQ_INT(ftruncate(file, size - 1), 0, "a byte less");
	OK(pages_load(file, untouched.pid, ram, &e) < 0 && e.kind == ERR_CORRUPT, "is refused");
	EQ_INT(ftruncate(file, 10), 0, "a file of ten bytes");
	OK(pages_load(file, untouched.pid, ram, &e) < 0 && e.kind == ERR_CORRUPT, "is refused");
	OK(is_as_wanted(&untouched), "nothing was written for any of them");
	stop(&untouched);
}

static void errors(int ram)
{
	struct child c;
	struct pages_info info;
	cleanup_fd int other = temp(), full = open("/dev/full", O_RDWR | O_CLOEXEC), file = temp();

	OK(ftruncate(other, BYTES) == 0 && start(&c, ram, change, false), "a process");
	OK(pages_save(c.pid, ram, full, &info, &e) < 0 && e.kind == ERR_NO_SPACE, "no space");
	OK(pages_save(c.pid, other, file, &info, &e) < 0 && e.kind == ERR_INTERNAL,
		"another RAM file");
	pid_t gone = c.pid;
	stop(&c);
	OK(pages_save(gone, ram, file, &info, &e) < 0, "a process that has ended");
}

int main(void)
{
	cleanup_fd int ram = make_ram();

	OK(ram >= 0, "a RAM file");
	round_trip(ram, false);
	round_trip(ram, true);
	many_runs(ram);
	nothing(ram);
	corrupt(ram);
	errors(ram);
	return tap_done();
}
