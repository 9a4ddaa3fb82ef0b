/* SPDX-License-Identifier: Apache-2.0 */
#include "reserve.h"

#include "../base/fd.h"
#include "../base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "reserve"
#define FREE_FACTOR 16

void reserve_fill(const struct home *h)
{
	struct stat st;
	uint64_t room;

	if (fstatat(h->dirfd, NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
		file_free_bytes(h->dirfd, &room) < 0 || room < FREE_FACTOR * RESERVE_BYTES)
		return;
	cleanup_fd int fd =
		openat(h->dirfd, NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && fallocate(fd, 0, 0, RESERVE_BYTES) < 0)
		(void)reserve_release(h);
}

bool reserve_release(const struct home *h)
{
	return unlinkat(h->dirfd, NAME, 0) == 0;
}

void reserve_release_if_full(const struct home *h)
{
	uint64_t room;

	if (file_free_bytes(h->dirfd, &room) == 0 && room < RESERVE_BYTES)
		(void)reserve_release(h);
}
