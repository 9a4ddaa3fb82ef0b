/* SPDX-License-Identifier: Apache-2.0 */
/* A file of saved pages: checked, and when it holds, loaded into a process that maps a RAM file as
 * QEMU does. What is refused must be refused by both, what is not must load. */
#include "vm/pages.h"

#include "base/fd.h"
#include "vm/ram-map.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RAM_PAGES 64u

static int ram_fd = -1, file_fd = -1;
static pid_t child;

static void start(void)
{
	int ready[2];
	char byte;

	ram_fd = memfd_create("ram", MFD_CLOEXEC);
	file_fd = memfd_create("pages", MFD_CLOEXEC);
	if (ram_fd < 0 || file_fd < 0 || ftruncate(ram_fd, RAM_PAGES * RAM_PAGE) < 0 ||
		pipe(ready) < 0)
		abort();
	pid_t parent = getpid();
	if ((child = fork()) == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		void *ram = mmap(
			NULL, RAM_PAGES * RAM_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, ram_fd, 0);
		if (ram == MAP_FAILED || getppid() != parent || write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			(void)pause();
	}
	if (read(ready[0], &byte, 1) != 1)
		abort();
	(void)close(ready[0]);
	(void)close(ready[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e;

	if (child == 0)
		start();
	if (ftruncate(file_fd, 0) < 0 || fd_pwrite_all(file_fd, data, size, 0) < 0)
		abort();
	int check = pages_check(file_fd, RAM_PAGES * RAM_PAGE, &e);
	assert(check == 0 || e.kind == ERR_CORRUPT);
	int load = pages_load(file_fd, child, ram_fd, &e);
	assert((load == 0) == (check == 0));
	return 0;
}
