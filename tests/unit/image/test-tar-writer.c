/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "image/archive/tar-writer.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static char block[300 * 1024]; /* more than is held back */

static void must(int r)
{
	if (r < 0)
		abort();
}

static uint64_t write_small(int fd)
{
	cleanup_tar_writer struct tar_writer *w = NULL;
	struct err e = {0};
	uint64_t bytes = 0;

	must(tar_writer_new(fd, &w, &e));
	must(tar_writer_folder(w, "d/", &e));
	must(tar_writer_file(w, "d/a", 3, &e));
	must(tar_writer_data(w, "abc", 3, &e));
	must(tar_writer_end(w, &bytes, &e));
	return bytes;
}

static void test_small(void)
{
	cleanup_fd int one = memfd_create("1", MFD_CLOEXEC);
	cleanup_fd int two = memfd_create("2", MFD_CLOEXEC);
	char a[4096] = "", b[4096] = "x";

	EQ_INT(write_small(one), 5 * 512, "two headers, one block, two blocks of zeros");
	EQ_INT(write_small(two), 5 * 512, "again");
	EQ_INT(fd_pread_full(one, a, sizeof(a), 0), 5 * 512, "as much as it says");
	EQ_INT(fd_pread_full(two, b, sizeof(b), 0), 5 * 512, "and again");
	OK(memcmp(a, b, 5 * 512) == 0, "the same bytes");
	EQ_STR(a, "d/", "the first name");
	OK(memcmp(a + 257, "ustar", 5) == 0, "ustar");
	EQ_STR(a + 2 * 512, "abc", "content");
}

static void test_large(void)
{
	cleanup_tar_writer struct tar_writer *w = NULL;
	cleanup_fd int fd = memfd_create("1", MFD_CLOEXEC);
	char head[2048];
	struct err e = {0};

	must(tar_writer_new(fd, &w, &e));
	must(tar_writer_file(w, "big", UINT64_C(9) << 30, &e));
	must(tar_writer_data(w, block, sizeof(block), &e));
	must(fd_pread_full(fd, head, sizeof(head), 0) == sizeof(head) ? 0 : -1);
	EQ_INT(head[156], 'x', "a pax header");
	OK(memmem(head, sizeof(head), " size=9663676416\n", 17) != NULL, "says a size of 9 GB");
}

static void test_unfinished(void)
{
	cleanup_tar_writer struct tar_writer *w = NULL;
	cleanup_fd int fd = memfd_create("1", MFD_CLOEXEC);
	struct err e = {0};

	must(tar_writer_new(fd, &w, &e));
	must(tar_writer_file(w, "a", 3, &e));
	tar_writer_freep(&w);
	EQ_INT(lseek(fd, 0, SEEK_END), 0, "an unfinished one does not write its end");
}

static enum err_kind write_to(int fd)
{
	cleanup_tar_writer struct tar_writer *w = NULL;
	struct err e = {0};

	must(tar_writer_new(fd, &w, &e));
	must(tar_writer_file(w, "a", sizeof(block), &e));
	if (tar_writer_data(w, block, sizeof(block), &e) == 0)
		return ERR_NONE;
	printf("# %s\n", e.what);
	return e.kind;
}

static void test_failures(void)
{
	cleanup_fd int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	cleanup_fd int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	cleanup_fd int reader = open("/dev/null", O_RDONLY | O_CLOEXEC);

	EQ_INT(write_to(null), ERR_NONE, "control");
	EQ_INT(write_to(full), ERR_NO_SPACE, "a full disk");
	EQ_INT(write_to(reader), ERR_IO, "a descriptor that cannot be written to");
}

int main(void)
{
	test_small();
	test_large();
	test_unfinished();
	test_failures();
	return tap_done();
}
