/* SPDX-License-Identifier: Apache-2.0 */
#include "copy.h"

#include "../../base/fd.h"
#include "../../base/strv.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK (256u * 1024)

int copy_begin(const struct workdir *w, const char *name, const char *what, struct copy *ret,
	struct err *e)
{
	cleanup_copy struct copy c = {.images = w->images, .what = what, .fd = -1};

	c.fd = openat(w->fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (c.fd < 0)
		return images_write_error(w->images, errno, what, e);
	c.hash = sha256_new();
	if (!c.hash)
		return err_errno(e, ENOMEM, "%s", what);
	*ret = c;
	c = (struct copy)COPY_NONE;
	return 0;
}

int copy_write(struct copy *c, const void *data, size_t len, struct err *e)
{
	int r = fd_write_all(c->fd, data, len);

	if (r < 0)
		return images_write_error(c->images, -r, c->what, e);
	sha256_update(c->hash, data, len);
	c->size += len;
	return 0;
}

void copy_end(struct copy *c, struct copied *ret)
{
	char hex[SHA256_HEX_SIZE];

	sha256_hex(c->hash, hex);
	(void)snprintf(ret->digest, sizeof(ret->digest), "sha256:%s", hex);
	ret->size = c->size;
	/* It will have to be on disk, and what is done with it first takes a while. */
	(void)sync_file_range(c->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

void copy_release(struct copy *c)
{
	c->fd = fd_close(c->fd);
	sha256_freep(&c->hash);
}

static int too_large(const char *what, uint64_t max_bytes, struct err *e)
{
	return err_set(e, ERR_LIMIT, 0, "%s is larger than %llu bytes", what,
		(unsigned long long)max_bytes);
}

/* 1: it was cloned; 0: it has to be read. */
static int try_clone(struct copy *c, int fd, uint64_t max_bytes, struct copied *ret, struct err *e)
{
	char hex[SHA256_HEX_SIZE];
	struct stat st;

	if (lseek(fd, 0, SEEK_CUR) != 0 || ioctl(c->fd, FICLONE, fd) < 0)
		return 0;
	if (fstat(c->fd, &st) < 0)
		return err_errno(e, errno, "%s", c->what);
	if ((uint64_t)st.st_size > max_bytes)
		return too_large(c->what, max_bytes, e);
	int r = sha256_hex_of_fd(c->fd, hex);
	if (r < 0)
		return err_errno(e, -r, "reading %s", c->what);
	(void)snprintf(ret->digest, sizeof(ret->digest), "sha256:%s", hex);
	ret->size = (uint64_t)st.st_size;
	return 1;
}

int copy_all(const struct workdir *w, int fd, const char *name, const char *what,
	uint64_t max_bytes, struct copied *ret, struct err *e)
{
	cleanup_copy struct copy c = COPY_NONE;
	cleanup_str char *chunk = malloc(CHUNK);
	ssize_t n;
	int r;

	if (!chunk)
		return err_errno(e, ENOMEM, "%s", what);
	if ((r = copy_begin(w, name, what, &c, e)) < 0)
		return r;
	if ((r = try_clone(&c, fd, max_bytes, ret, e)) != 0)
		return r < 0 ? r : 0;
	while ((n = fd_read_full(fd, chunk, CHUNK)) > 0) {
		if ((uint64_t)n > max_bytes - c.size)
			return too_large(what, max_bytes, e);
		if ((r = copy_write(&c, chunk, (size_t)n, e)) < 0)
			return r;
	}
	if (n < 0)
		return err_errno(e, (int)-n, "reading %s", what);
	copy_end(&c, ret);
	return 0;
}
