/* SPDX-License-Identifier: Apache-2.0 */
#include "images.h"

#include "../base/fd.h"
#include "../base/file.h"
#include "../base/hash.h"
#include "../base/log.h"
#include "../base/space.h"
#include "../base/strv.h"
#include "../base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SQUASHFS_MAGIC "hsqs"
#define OPEN_TRIES 100

static const char *hex_of(const char *digest)
{
	return digest + strlen("sha256:");
}

int images_open(const char *dir, struct output *output, struct images *ret, struct err *e)
{
	cleanup_images struct images i = {.dirfd = -1, .blobsfd = -1, .locksfd = -1};

	i.output = output;
	i.path = strdup(dir);
	if (!i.path)
		return err_errno(e, ENOMEM, "%s", dir);
	i.dirfd = dir_open(AT_FDCWD, dir, false, 0);
	if (i.dirfd < 0)
		return err_errno(e, -i.dirfd, "cannot open the images' folder %s", dir);
	i.blobsfd = dir_open(i.dirfd, "blobs", true, 0700);
	if (i.blobsfd < 0)
		return err_errno(e, -i.blobsfd, "cannot open %s/blobs", dir);
	i.locksfd = dir_open(i.dirfd, "locks", true, 0700);
	if (i.locksfd < 0)
		return err_errno(e, -i.locksfd, "cannot open %s/locks", dir);
	*ret = i;
	i = (struct images){.dirfd = -1, .blobsfd = -1, .locksfd = -1};
	return 0;
}

void images_release(struct images *i)
{
	i->dirfd = fd_close(i->dirfd);
	i->blobsfd = fd_close(i->blobsfd);
	i->locksfd = fd_close(i->locksfd);
	str_freep(&i->path);
}

/* The holder removes the file before it lets go: what we have locked may not be the file that the
 * name leads to any more. */
static bool is_current(int dirfd, const char *name, int fd)
{
	struct stat ours, named;

	return fstat(fd, &ours) == 0 && fstatat(dirfd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

int images_lock(const struct images *i, const char *digest, struct image_lock *ret, struct err *e)
{
	struct image_lock l = {.images = i, .fd = -1};
	bool told = false;

	(void)snprintf(l.name, sizeof(l.name), "%s", hex_of(digest));
	for (;;) {
		l.fd = lock_open(i->locksfd, l.name, told);
		if (l.fd == -EWOULDBLOCK || l.fd == -EAGAIN) {
			output_notice(
				i->output, "waiting for another process that makes the same image");
			told = true;
			continue;
		}
		if (l.fd < 0)
			return err_errno(e, -l.fd, "cannot lock the image %s", digest);
		if (is_current(i->locksfd, l.name, l.fd))
			break;
		l.fd = fd_close(l.fd);
	}
	*ret = l;
	return 0;
}

void image_lock_release(struct image_lock *l)
{
	if (l->fd < 0)
		return;
	(void)unlinkat(l->images->locksfd, l->name, 0);
	l->fd = fd_close(l->fd);
}

int images_find(const struct images *i, const char *digest, uint64_t *ret_size, struct err *e)
{
	char name[80], magic[4] = "";
	struct stat st;

	(void)snprintf(name, sizeof(name), "%s.sqfs", hex_of(digest));
	cleanup_fd int fd = openat(i->dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	*ret_size = 0;
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(e, errno, "cannot open %s/%s", i->path, name);
	/* A file cut by a crash of the host is made anew. */
	if (!S_ISREG(st.st_mode) || fd_pread_full(fd, magic, sizeof(magic), 0) != sizeof(magic) ||
		memcmp(magic, SQUASHFS_MAGIC, sizeof(magic)) != 0)
		return 0;
	*ret_size = (uint64_t)st.st_size;
	return 0;
}

int images_check_space(const struct images *i, uint64_t needed, const char *what_for, struct err *e)
{
	return space_check(i->dirfd, what_for, needed, e);
}

int images_write_error(const struct images *i, int errnum, const char *what, struct err *e)
{
	if (errnum == ENOSPC || errnum == EDQUOT)
		return space_error(i->dirfd, what, 0, e);
	return err_errno(e, errnum, "cannot write %s", what);
}

/* Locks the folder of this name, if it is still the one that the name leads to. */
static int lock_folder(const struct images *i, const char *name, bool wait)
{
	cleanup_fd int fd =
		openat(i->blobsfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	while (flock(fd, LOCK_EX | (wait ? 0 : LOCK_NB)) < 0)
		if (errno != EINTR)
			return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_nlink == 0) /* swept while we waited */
		return -ENOENT;
	return fd_take(&fd);
}

int workdir_open(const struct images *i, const char *digest, struct workdir *ret, struct err *e)
{
	struct workdir w = {.images = i, .fd = -ENOENT};
	char random[17];

	random_hex(random, sizeof(random) - 1);
	(void)snprintf(w.name, sizeof(w.name), "%s", digest ? hex_of(digest) : random);
	/* A sweep of another worker may remove the folder between mkdir and lock, once at most. */
	for (int tries = 0; w.fd == -ENOENT && tries < OPEN_TRIES; tries++) {
		if (mkdirat(i->blobsfd, w.name, 0700) < 0 && errno != EEXIST)
			return images_write_error(i, errno, "a work folder", e);
		w.fd = lock_folder(i, w.name, true);
	}
	if (w.fd < 0)
		return err_errno(e, -w.fd, "cannot lock %s/blobs/%s", i->path, w.name);
	images_sweep(i); /* what others left may be the space that is missing; w itself is locked */
	*ret = w;
	return 0;
}

void workdir_remove(struct workdir *w)
{
	if (w->fd < 0)
		return;
	int r = file_remove_tree(w->images->blobsfd, w->name);
	if (r < 0)
		log_warn("cannot remove %s/blobs/%s: %s", w->images->path, w->name, strerror(-r));
	w->fd = fd_close(w->fd);
}

void images_sweep(const struct images *i)
{
	int fd = openat(i->blobsfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (!d) {
		(void)fd_close(fd);
		return;
	}
	while ((de = readdir(d))) {
		if (de->d_name[0] == '.')
			continue;
		cleanup_fd int lock = lock_folder(i, de->d_name, false);
		if (lock < 0)
			continue;
		log_debug("removing what a dead worker left: blobs/%s", de->d_name);
		int r = file_remove_tree(i->blobsfd, de->d_name);
		if (r < 0)
			log_warn(
				"cannot remove %s/blobs/%s: %s", i->path, de->d_name, strerror(-r));
	}
	(void)closedir(d);
}

int images_publish(const struct workdir *w, const char *name, const char *digest, struct err *e)
{
	const struct images *i = w->images;
	char final[80];
	int r;

	(void)snprintf(final, sizeof(final), "%s.sqfs", hex_of(digest));
	cleanup_fd int fd = openat(w->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, 0400) < 0 || fsync(fd) < 0)
		return images_write_error(i, errno, "the image", e);
	if (renameat(w->fd, name, i->dirfd, final) < 0)
		return images_write_error(i, errno, "the image", e);
	r = dir_sync(i->dirfd);
	return r < 0 ? images_write_error(i, -r, "the image", e) : 0;
}
