/* SPDX-License-Identifier: Apache-2.0 */
#include "file.h"

#include "fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define TREE_DEPTH_MAX 64

int file_read(int dirfd, const char *name, struct buf *b)
{
	/* A fifo that nobody writes to is empty, not waited for. */
	cleanup_fd int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	return fd_read_all(fd, b);
}

int dir_sync(int dirfd)
{
	/* A directory descriptor opened with O_PATH cannot be synced: open it anew. */
	cleanup_fd int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

int file_write_atomic(
	int dirfd, const char *name, const void *data, size_t len, mode_t mode, bool durable)
{
	char temp[300];
	uint64_t tag;
	int r;

	if (getrandom(&tag, sizeof(tag), 0) != sizeof(tag))
		return -EIO;
	int n = snprintf(temp, sizeof(temp), "%s.%016llx.tmp", name, (unsigned long long)tag);
	if (n < 0 || (size_t)n >= sizeof(temp))
		return -ENAMETOOLONG;
	cleanup_fd int fd = openat(dirfd, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, data, len);
	if (r == 0 && durable && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dirfd, temp, dirfd, name) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(dirfd, temp, 0);
		return r;
	}
	return durable ? dir_sync(dirfd) : 0;
}

struct removal {
	int top;	/* the folder that is removed */
	unsigned moved; /* into it, as they were too deep */
};

static int remove_tree(struct removal *m, int dirfd, const char *name, int depth);

/* All that is in the folder of this descriptor, which it takes. */
static int remove_contents(struct removal *m, int fd, int depth)
{
	DIR *d = fdopendir(fd);
	struct dirent *de;
	int first = 0;

	if (!d) {
		first = -errno;
		(void)fd_close(fd);
		return first;
	}
	while ((de = readdir(d))) {
		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
			continue;
		int r = remove_tree(m, fd, de->d_name, depth - 1);
		if (r < 0 && first == 0)
			first = r;
	}
	(void)closedir(d);
	return first;
}

/* Each level has a descriptor, and they are few: what is deeper is moved up and comes later. */
static int move_up(struct removal *m, int dirfd, const char *name)
{
	char up[48];

	(void)snprintf(up, sizeof(up), ".removed-%d-%u", (int)getpid(), m->moved++);
	return renameat(dirfd, name, m->top, up) < 0 ? -errno : 0;
}

static int remove_tree(struct removal *m, int dirfd, const char *name, int depth)
{
	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (depth == 0)
		return move_up(m, dirfd, name);
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	int r = remove_contents(m, fd, depth);
	if (r == 0 && unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = -errno;
	return r;
}

int file_remove_tree(int dirfd, const char *name)
{
	unsigned before;
	int r;

	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	struct removal m = {
		.top = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
	if (m.top < 0)
		return errno == ENOENT ? 0 : -errno;
	do {
		before = m.moved;
		int fd = openat(m.top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = fd < 0 ? -errno : remove_contents(&m, fd, TREE_DEPTH_MAX);
	} while (r == 0 && m.moved > before);
	(void)fd_close(m.top);
	if (r == 0 && unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = -errno;
	return r;
}

int dir_open(int dirfd, const char *name, bool create, mode_t mode)
{
	if (create && mkdirat(dirfd, name, mode) < 0 && errno != EEXIST)
		return -errno;
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int lock_take(int fd, bool wait)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	while (fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &whole) < 0)
		if (errno != EINTR)
			return errno == EACCES ? -EWOULDBLOCK : -errno;
	return 0;
}

int lock_open(int dirfd, const char *name, bool wait)
{
	cleanup_fd int fd = openat(dirfd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	int r = lock_take(fd, wait);
	return r < 0 ? r : fd_take(&fd);
}

int lock_test(int dirfd, const char *name)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	cleanup_fd int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fcntl(fd, F_OFD_GETLK, &whole) < 0)
		return -errno;
	return whole.l_type != F_UNLCK;
}

int file_free_bytes(int fd, uint64_t *ret)
{
	struct statvfs vfs;

	if (fstatvfs(fd, &vfs) < 0)
		return -errno;
	*ret = (uint64_t)vfs.f_bavail * vfs.f_frsize;
	return 0;
}
