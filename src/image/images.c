/* SPDX-License-Identifier: Apache-2.0 */
#include "images.h"

#include "../base/cursor.h"
#include "../base/fd.h"
#include "../base/file.h"
#include "../base/hash.h"
#include "../base/log.h"
#include "../base/space.h"
#include "../base/strv.h"
#include "../base/text.h"
#include "../proto/images-dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The superblock of a squashfs 4.0 (Linux, fs/squashfs/squashfs_fs.h, struct squashfs_super_block):
 * magic at 0, bytes_used (64 bits, little-endian) at 40. */
#define SQUASHFS_MAGIC "hsqs"
#define SQUASHFS_USED_AT 40
#define SQUASHFS_HEAD 48
#define OPEN_TRIES 100

static const char *hex_of(const char *digest)
{
	return digest + strlen("sha256:");
}

/* A folder of ours below dir, made when it is missing. */
static int open_folder(const struct images *i, const char *name, int *ret, struct err *e)
{
	*ret = dir_open(i->dirfd, name, true, 0700);
	return *ret < 0 ? images_write_error(i, -*ret, "a folder of the images", e) : 0;
}

int images_open(const char *dir, struct output *output, struct images *ret, struct err *e)
{
	cleanup_images struct images i = IMAGES_NONE;
	int blobs = -1, r;

	i.output = output;
	i.path = strdup(dir);
	if (!i.path)
		return err_errno(e, ENOMEM, "%s", dir);
	i.dirfd = dir_open(AT_FDCWD, dir, false, 0);
	if (i.dirfd < 0)
		return err_errno(e, -i.dirfd, "cannot open the images' folder %s", dir);
	if ((r = open_folder(&i, "blobs", &blobs, e)) < 0)
		return r;
	(void)fd_close(blobs);
	if ((r = open_folder(&i, IMAGES_BLOBS, &i.blobsfd, e)) < 0 ||
		(r = open_folder(&i, IMAGES_PARTIAL, &i.partialfd, e)) < 0 ||
		(r = open_folder(&i, IMAGES_WORK, &i.workfd, e)) < 0 ||
		(r = open_folder(&i, IMAGES_CLAIMS, &i.claimsfd, e)) < 0)
		return r;
	*ret = i;
	i = (struct images)IMAGES_NONE;
	return 0;
}

void images_release(struct images *i)
{
	i->dirfd = fd_close(i->dirfd);
	i->blobsfd = fd_close(i->blobsfd);
	i->partialfd = fd_close(i->partialfd);
	i->workfd = fd_close(i->workfd);
	i->claimsfd = fd_close(i->claimsfd);
	str_freep(&i->path);
}

/* A file that was cut by a crash of the host is none. */
static bool is_whole(int fd, uint64_t size)
{
	unsigned char head[SQUASHFS_HEAD];
	struct cursor c;

	if (fd_pread_full(fd, head, sizeof(head), 0) != sizeof(head) ||
		memcmp(head, SQUASHFS_MAGIC, strlen(SQUASHFS_MAGIC)) != 0)
		return false;
	cursor_init(&c, head + SQUASHFS_USED_AT, sizeof(head) - SQUASHFS_USED_AT);
	return cursor_u64(&c) <= size;
}

int images_find(const struct images *i, const char *digest, uint64_t *ret_size, struct err *e)
{
	char name[80];
	struct stat st;

	(void)snprintf(name, sizeof(name), "%s.sqfs", hex_of(digest));
	cleanup_fd int fd = openat(i->dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	*ret_size = 0;
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(e, errno, "cannot open %s/%s", i->path, name);
	if (!S_ISREG(st.st_mode) || !is_whole(fd, (uint64_t)st.st_size))
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
	if (errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG)
		return space_error(i->dirfd, what, 0, e);
	return err_errno(e, errnum, "cannot write %s", what);
}

/* Locks the folder of this name, if it is still the one that the name leads to. */
static int lock_folder(const struct images *i, const char *name, bool wait)
{
	cleanup_fd int fd =
		openat(i->workfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
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

int workdir_open(const struct images *i, const char *name, struct workdir *ret, struct err *e)
{
	struct workdir w = {.images = i, .fd = -ENOENT};
	char random[18] = "x";

	images_sweep(i); /* what others left may be the space that is missing */
	random_hex(random + 1, sizeof(random) - 2);
	(void)snprintf(w.name, sizeof(w.name), "%s", name ? name : random);
	/* A sweep of another worker may remove the folder between mkdir and lock, once at most. */
	for (int tries = 0; w.fd == -ENOENT && tries < OPEN_TRIES; tries++) {
		if (mkdirat(i->workfd, w.name, 0700) < 0 && errno != EEXIST)
			return images_write_error(i, errno, "a work folder", e);
		w.fd = lock_folder(i, w.name, true);
	}
	if (w.fd < 0)
		return err_errno(e, -w.fd, "cannot lock %s/" IMAGES_WORK "/%s", i->path, w.name);
	*ret = w;
	return 0;
}

void workdir_remove(struct workdir *w)
{
	if (w->fd < 0)
		return;
	int r = file_remove_tree(w->images->workfd, w->name);
	if (r < 0)
		log_warn("cannot remove %s/" IMAGES_WORK "/%s: %s", w->images->path, w->name,
			strerror(-r));
	w->fd = fd_close(w->fd);
}

void images_sweep(const struct images *i)
{
	int fd = openat(i->workfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
		log_debug("removing what a dead worker left: work/%s", de->d_name);
		int r = file_remove_tree(i->workfd, de->d_name);
		if (r < 0)
			log_warn("cannot remove %s/" IMAGES_WORK "/%s: %s", i->path, de->d_name,
				strerror(-r));
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
