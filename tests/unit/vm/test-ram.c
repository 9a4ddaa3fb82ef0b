/* SPDX-License-Identifier: Apache-2.0 */
/* Guest-physical addresses that a guest names, and writing to them from outside. */
#include "vm/ram-map.h"

#include "tap.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MB (1ull << 20)
#define GB (1ull << 30)
#define NOWHERE UINT64_MAX

static void test_addresses(void)
{
	static const struct {
		uint64_t ram, physical, len, want;
		const char *what;
	} cases[] = {
		{512 * MB, 4 * MB, MB, 4 * MB, "low memory"},
		{512 * MB, 511 * MB, MB, 511 * MB, "the last of it"},
		{512 * MB, 511 * MB + 1, MB, NOWHERE, "one byte beyond"},
		{512 * MB, 512 * MB, 1, NOWHERE, "beyond"},
		{512 * MB, MB - 1, 1, NOWHERE, "the first MB"},
		{512 * MB, 0, MB, NOWHERE, "null"},
		{512 * MB, 4 * GB, 1, NOWHERE, "there is no high memory"},
		{512 * MB, UINT64_MAX, MB, NOWHERE, "the last address"},
		{512 * MB, UINT64_MAX - MB + 1, MB, NOWHERE, "to the very end"},
		{512 * MB, 4 * MB, UINT64_MAX, NOWHERE, "a length that wraps"},
		{512 * MB, 4 * MB, UINT64_MAX - 4 * MB + 1, NOWHERE, "one that wraps to 0"},
		{2815 * MB, 2814 * MB, MB, 2814 * MB, "as much as is low"},
		{2816 * MB, 2047 * MB, MB, 2047 * MB, "below the split"},
		{2816 * MB, 2047 * MB, 2 * MB, NOWHERE, "into the hole"},
		{2816 * MB, 2048 * MB, MB, NOWHERE, "in the hole"},
		{2816 * MB, 4 * GB - MB, 2 * MB, NOWHERE, "out of the hole"},
		{2816 * MB, 4 * GB, MB, 2048 * MB, "high memory"},
		{2816 * MB, 4 * GB + 767 * MB, MB, 2815 * MB, "the last of it"},
		{2816 * MB, 4 * GB + 767 * MB + 1, MB, NOWHERE, "one byte beyond"},
		{2816 * MB, 4 * GB + 768 * MB, MB, NOWHERE, "beyond"},
		{8 * GB, 9 * GB, MB, 7 * GB, "more of it"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t at = NOWHERE;
		int r = ram_offset(cases[i].ram, cases[i].physical, cases[i].len, &at);
		EQ_INT(r, cases[i].want == NOWHERE ? -ERANGE : 0, cases[i].what);
		OK(at == cases[i].want, cases[i].what);
	}
}

static void test_writing(void)
{
	const size_t size = 64 * RAM_PAGE;
	int ready[2], go[2];
	char byte = 0;
	struct err e;
	struct ram_map map;
	int fd = memfd_create("ram", MFD_CLOEXEC);

	OK(fd >= 0 && ftruncate(fd, (off_t)size) == 0 && pipe(ready) == 0 && pipe(go) == 0,
		"set up");
	pid_t pid = fork();
	if (pid == 0) {
		const char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
		if (at == MAP_FAILED || write(ready[1], "r", 1) != 1 || read(go[0], &byte, 1) != 1)
			_exit(1);
		_exit(at[4999] == 0 && memcmp(at + 5000, "hello", 5) == 0 && at[5005] == 0 ? 0 : 2);
	}
	int status = -1;
	OK(read(ready[0], &byte, 1) == 1, "it has mapped it");
	OK(ram_map_find(pid, fd, &map, &e) == 0, "found");
	OK(ram_map_write_at(&map, size - 4, "hello", 5, &e) < 0, "not over the end");
	OK(ram_map_write_at(&map, 5000, "hello", 5, &e) == 0, "written");
	OK(write(go[1], "g", 1) == 1 && waitpid(pid, &status, 0) == pid, "it looks");
	EQ_INT(status, 0, "and sees it, and nothing else");
	OK(ram_map_write_at(&map, 5000, "hello", 5, &e) < 0, "not into a process that is gone");
	OK(pread(fd, &byte, 1, 5000) == 1 && byte == 0, "the file is as it was");
}

int main(void)
{
	test_addresses();
	test_writing();
	return tap_done();
}
