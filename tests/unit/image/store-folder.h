/* SPDX-License-Identifier: Apache-2.0 */
/* An images' folder of a test's own. */
#ifndef KOSA8_TESTS_STORE_FOLDER_H
#define KOSA8_TESTS_STORE_FOLDER_H

#include "base/fd.h"
#include "base/file.h"
#include "base/hash.h"
#include "image/images.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct store_folder {
	char path[64];
	struct output output;
	struct images images;
};

static inline void store_folder_make(struct store_folder *f)
{
	struct err e;

	(void)snprintf(f->path, sizeof(f->path), "%s", "/tmp/kosa8-test-images.XXXXXX");
	f->output = (struct output){.fd = open("/dev/null", O_WRONLY | O_CLOEXEC)};
	if (f->output.fd < 0 || !mkdtemp(f->path) ||
		images_open(f->path, &f->output, &f->images, &e) < 0)
		abort();
}

static inline void store_folder_remove(struct store_folder *f)
{
	images_release(&f->images);
	f->output.fd = fd_close(f->output.fd);
	if (file_remove_tree(AT_FDCWD, f->path) < 0)
		abort();
}

static inline void store_folder_digest(const char *content, char ret[static REFERENCE_DIGEST_SIZE])
{
	char hex[SHA256_HEX_SIZE];

	sha256_hex_of(content, strlen(content), hex);
	(void)snprintf(ret, REFERENCE_DIGEST_SIZE, "sha256:%s", hex);
}

/* Size of a file below a folder, -1: none. */
static inline long store_folder_size(int dirfd, const char *name)
{
	struct stat st;

	return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -1 : (long)st.st_size;
}

static inline int store_folder_mode(int dirfd, const char *name)
{
	struct stat st;

	return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -1 : (int)(st.st_mode & 07777);
}

static inline void store_folder_write(int dirfd, const char *name, const char *content, long size)
{
	cleanup_fd int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || fd_write_all(fd, content, strlen(content)) < 0 ||
		(size > 0 && ftruncate(fd, size) < 0))
		abort();
}

#endif
