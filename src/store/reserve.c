/* SPDX-License-Identifier: Apache-2.0 */
#include "reserve.h"

#include "../base/fd.h"
#include "../base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "reserve"
#define FREE_FACTOR 16
#define MIN_BYTES (64u * 1024) /* a record and a change of the catalog */

/* At most 1 part of `parts` of what is free. */
static void fill(const struct home *h, uint64_t parts, uint64_t min_bytes)
{
	struct stat st;
	uint64_t room;

	if (fstatat(h->dirfd, NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
		file_free_bytes(h->dirfd, &room) < 0 || room / parts < min_bytes)
		return;
	uint64_t size = room / parts < RESERVE_BYTES ? room / parts : RESERVE_BYTES;
	cleanup_fd int fd =
		openat(h->dirfd, NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && fallocate(fd, 0, 0, (off_t)size) < 0)
		(void)reserve_release(h);
}

void reserve_fill(const struct home *h)
{
	fill(h, FREE_FACTOR, RESERVE_BYTES);
}

void reserve_refill(const struct home *h)
{
	fill(h, 2, MIN_BYTES);
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
