/* SPDX-License-Identifier: Apache-2.0 */
#include "blobs.h"

#include "../base/fd.h"
#include "../base/file.h"
#include "../base/hash.h"
#include "../proto/images-dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *hex_of(const char *digest)
{
	return digest + strlen("sha256:");
}

static int not_here(const char *digest, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, ENOENT, "the blob %s is not here", digest);
}

static int open_file(const struct images *i, const char *digest, struct stat *ret, struct err *e)
{
	cleanup_fd int fd =
		openat(i->blobsfd, hex_of(digest), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return not_here(digest, e);
	if (fd < 0 || fstat(fd, ret) < 0)
		return err_errno(e, errno, "cannot open the blob %s", digest);
	if (!S_ISREG(ret->st_mode))
		return err_set(e, ERR_CORRUPT, 0, "%s/%s/%s is not a file", i->path, IMAGES_BLOBS,
			hex_of(digest));
	return fd_take(&fd);
}

static int check(const struct images *i, const char *digest, int fd, struct err *e)
{
	char hex[SHA256_HEX_SIZE];
	int r = sha256_hex_of_fd(fd, hex);

	if (r < 0)
		return err_errno(e, -r, "cannot read the blob %s", digest);
	if (strcmp(hex, hex_of(digest)) == 0)
		return 0;
	(void)unlinkat(i->blobsfd, hex_of(digest), 0);
	(void)err_set(e, ERR_CORRUPT, 0, "the blob %s was damaged on this host's disk", digest);
	return err_hint(e, "pull or load the image again");
}

int blobs_open(const struct images *i, const char *digest, uint64_t *ret_size, struct err *e)
{
	struct stat st;
	struct err damage;
	cleanup_fd int fd = open_file(i, digest, &st, e);

	if (fd < 0)
		return fd;
	if ((st.st_mode & 0777) != IMAGES_BLOB_SYNCED && check(i, digest, fd, &damage) < 0)
		return not_here(digest, e);
	*ret_size = (uint64_t)st.st_size;
	return fd_take(&fd);
}

int blobs_open_unchecked(
	const struct images *i, const char *digest, uint64_t *ret_size, struct err *e)
{
	struct stat st;
	int fd = open_file(i, digest, &st, e);

	if (fd >= 0)
		*ret_size = (uint64_t)st.st_size;
	return fd;
}

bool blobs_have(const struct images *i, const char *digest)
{
	struct err ignored;
	uint64_t size;
	cleanup_fd int fd = blobs_open(i, digest, &size, &ignored);

	return fd >= 0;
}

bool blobs_any(const struct images *i)
{
	int fd = openat(i->blobsfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (!d) {
		(void)fd_close(fd);
		return false;
	}
	while ((de = readdir(d)) && de->d_name[0] == '.')
		;
	(void)closedir(d);
	return de != NULL;
}

int blobs_read(const struct images *i, const char *digest, size_t max_bytes, struct buf *ret,
	struct err *e)
{
	char hex[SHA256_HEX_SIZE];
	struct stat st;
	cleanup_fd int fd = open_file(i, digest, &st, e);

	buf_init(ret, max_bytes);
	if (fd < 0)
		return fd;
	int r = fd_read_all(fd, ret);
	if (r == -E2BIG)
		return err_set(
			e, ERR_LIMIT, 0, "the blob %s is larger than %zu bytes", digest, max_bytes);
	if (r < 0)
		return err_errno(e, -r, "cannot read the blob %s", digest);
	sha256_hex_of(ret->data, ret->len, hex);
	return strcmp(hex, hex_of(digest)) == 0 ? 0 : check(i, digest, fd, e);
}

int blobs_put(
	const struct images *i, const char *digest, const void *data, size_t len, struct err *e)
{
	if (blobs_have(i, digest))
		return 0;
	int r = file_write_atomic(i->blobsfd, hex_of(digest), data, len, IMAGES_BLOB_FRESH, false);
	return r < 0 ? images_write_error(i, -r, "an image's description", e) : 0;
}

int blobs_adopt(
	const struct images *i, int dirfd, const char *name, const char *digest, struct err *e)
{
	const char *hex = hex_of(digest);

	if (fchmodat(dirfd, name, IMAGES_BLOB_FRESH, 0) < 0)
		return images_write_error(i, errno, "a layer", e);
	/* Another worker may have brought it meanwhile. Its file stays: a catalog may name it, and
	 * ours would be removed if we fail. */
	if (renameat2(dirfd, name, i->blobsfd, hex, RENAME_NOREPLACE) == 0)
		return 0;
	int r = errno == EEXIST && blobs_have(i, digest) ? unlinkat(dirfd, name, 0)
							 : renameat(dirfd, name, i->blobsfd, hex);
	return r < 0 ? images_write_error(i, errno, "a layer", e) : 0;
}

/* Syncs those that are not, and opens them: fds of the others stay -1. */
static int sync_files(
	const struct images *i, const char *const *digests, size_t n, int *fds, struct err *e)
{
	bool any = false;

	for (size_t k = 0; k < n; k++) {
		struct stat st;
		cleanup_fd int fd = open_file(i, digests[k], &st, e);
		if (fd < 0)
			return fd;
		if ((st.st_mode & 0777) == IMAGES_BLOB_SYNCED)
			continue;
		if (fsync(fd) < 0)
			return images_write_error(i, errno, "a layer", e);
		fds[k] = fd_take(&fd);
		any = true;
	}
	int r = any ? dir_sync(i->blobsfd) : 0;
	return r < 0 ? images_write_error(i, -r, "a layer", e) : 0;
}

int blobs_sync(const struct images *i, const char *const *digests, size_t n, struct err *e)
{
	int *fds = malloc((n ? n : 1) * sizeof(*fds));

	if (!fds)
		return err_errno(e, ENOMEM, "%zu blobs", n);
	for (size_t k = 0; k < n; k++)
		fds[k] = -1;
	int r = sync_files(i, digests, n, fds, e);
	/* The mode says it of the very file that was synced, when its name is on disk too. */
	for (size_t k = 0; k < n; k++) {
		if (r == 0 && fds[k] >= 0 && fchmod(fds[k], IMAGES_BLOB_SYNCED) < 0)
			r = images_write_error(i, errno, "a layer", e);
		(void)fd_close(fds[k]);
	}
	free(fds);
	return r;
}

int blobs_verify(const struct images *i, const char *digest, struct err *e)
{
	struct stat st;
	cleanup_fd int fd = open_file(i, digest, &st, e);

	return fd < 0 ? fd : check(i, digest, fd, e);
}
