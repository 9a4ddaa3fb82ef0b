/* SPDX-License-Identifier: Apache-2.0 */
#include "claim.h"

#include "../base/fd.h"
#include "../base/file.h"
#include "../base/hash.h"
#include "../base/log.h"
#include "../proto/images-dir.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The holder removes the file before it lets go: what we have locked may not be the file that the
 * name leads to any more. */
static bool is_current(int dirfd, const char *name, int fd)
{
	struct stat ours, named;

	return fstat(fd, &ours) == 0 && fstatat(dirfd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

static int lock_claim(const struct images *i, struct claim *c)
{
	bool told = false;

	for (;;) {
		c->fd = lock_open(i->claimsfd, c->name, told);
		if (c->fd == -EWOULDBLOCK || c->fd == -EAGAIN) {
			output_notice(
				i->output, "waiting for another process that makes the same image");
			told = true;
			continue;
		}
		if (c->fd < 0 || is_current(i->claimsfd, c->name, c->fd))
			return c->fd;
		c->fd = fd_close(c->fd);
	}
}

int claim_take(const struct images *i, const char *digest, struct claim *ret, struct err *e)
{
	struct claim c = {.images = i, .fd = -1};
	char random[17];

	random_hex(random, sizeof(random) - 1);
	(void)snprintf(c.name, sizeof(c.name), "%s%s", digest ? "" : "x",
		digest ? digest + strlen("sha256:") : random);
	int r = lock_claim(i, &c);
	if (r < 0)
		return images_write_error(i, -r, "a note of what is needed", e);
	*ret = c;
	return digest ? claim_add(ret, &digest, 1, e) : 0;
}

int claim_add(struct claim *c, const char *const *digests, size_t n, struct err *e)
{
	cleanup_buf struct buf lines = {0};
	cleanup_fd int lock = lock_open(c->images->dirfd, IMAGES_LOCK, true);
	off_t end = lock < 0 ? -1 : lseek(c->fd, 0, SEEK_END);

	if (end < 0)
		return images_write_error(
			c->images, lock < 0 ? -lock : errno, "a note of what is needed", e);
	buf_init(&lines, IMAGES_CLAIM_BYTES_MAX - (size_t)end);
	for (size_t k = 0; k < n; k++)
		buf_putf(&lines, "%s\n", digests[k]);
	if (buf_failed(&lines))
		return err_set(e, ERR_LIMIT, 0, "too many blobs at once");
	int r = fd_pwrite_all(c->fd, lines.data, lines.len, end);
	return r < 0 ? images_write_error(c->images, -r, "a note of what is needed", e) : 0;
}

void claim_release(struct claim *c, bool keep)
{
	if (c->fd < 0)
		return;
	if (!keep && unlinkat(c->images->claimsfd, c->name, 0) < 0)
		log_warn("cannot remove %s/%s/%s: %s", c->images->path, IMAGES_CLAIMS, c->name,
			strerror(errno));
	c->fd = fd_close(c->fd);
}
