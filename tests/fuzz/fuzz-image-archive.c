/* SPDX-License-Identifier: Apache-2.0 */
/* The tar of a saved image: what is found in it is what was hashed, whatever its links say. */
#include "base/fd.h"
#include "base/file.h"
#include "image/archive/files.h"

#include "repair.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARCHIVE_BYTES_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char top[] = "/tmp/kosa8-fuzz.XXXXXX";
static struct output output = {.fd = -1};
static struct images images = IMAGES_NONE;

static void remove_top(void)
{
	images_release(&images);
	(void)file_remove_tree(AT_FDCWD, top);
}

static void start(void)
{
	struct err e;

	if (!mkdtemp(top) || atexit(remove_top) != 0 || images_open(top, &output, &images, &e) < 0)
		abort();
}

static void look(struct files *f, const char *name)
{
	char hex[SHA256_HEX_SIZE];
	cleanup_buf struct buf b = {0};
	struct member m;
	struct err e = {0};

	int r = files_read(f, name, ARCHIVE_BYTES_MAX, &b, &m, &e);
	assert(r == 0 ? files_has(f, name) : e.kind == ERR_NOT_FOUND);
	if (r < 0)
		return;
	sha256_hex_of(b.data, b.len, hex);
	assert(m.content.size == b.len);
	assert(strcmp(m.content.digest + strlen("sha256:"), hex) == 0);
}

static void read_archive(const struct workdir *w, int fd)
{
	cleanup_files struct files f = FILES_NONE;
	struct err e = {0};

	if (files_read_tar(fd, w, ARCHIVE_BYTES_MAX, &f, &e) < 0) {
		assert(e.kind != ERR_NONE && e.kind != ERR_INTERNAL && e.kind != ERR_IO);
		return;
	}
	assert(f.len <= FILES_MAX);
	for (const char *const *name = (const char *const[]){"index.json", "manifest.json", "a",
		     "d/b", "blobs/sha256/a", NULL};
		*name; name++)
		look(&f, *name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_fd int fd = memfd_create("archive", MFD_CLOEXEC);
	unsigned char *tar = malloc(size + 1);
	struct workdir w = WORKDIR_NONE;
	struct err e;

	if (images.dirfd < 0)
		start();
	if (!tar || fd < 0 || workdir_open(&images, NULL, &w, &e) < 0)
		abort();
	if (size > 0)
		memcpy(tar, data, size);
	repair(tar, size);
	if (fd_write_all(fd, tar, size) < 0 || lseek(fd, 0, SEEK_SET) != 0)
		abort();
	read_archive(&w, fd);
	workdir_remove(&w);
	free(tar);
	return 0;
}
