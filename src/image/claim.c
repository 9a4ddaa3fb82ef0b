/* SPDX-License-Identifier: Apache-2.0 */
#include "claim.h"

#include "../base/fd.h"
#include "../base/file.h"
#include "../base/hash.h"
#include "../base/log.h"
#include "../proto/images-dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_BYTES 72 /* "sha256:", 64 digits, a line break */
/* Less of a layer is fetched again sooner than it is worth to keep. */
#define PARTIAL_MIN (1024 * 1024)

static int note_failed(const struct images *i, int errnum, struct err *e)
{
	return images_write_error(i, errnum, "a note of what is needed", e);
}

/* The holder removes the file before it lets go: what we have locked may not be the file that the
 * name leads to any more. */
static bool is_current(int dirfd, const char *name, int fd)
{
	struct stat ours, named;

	return fstat(fd, &ours) == 0 && fstatat(dirfd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

/* 0, or -ETIMEDOUT when the holder does not get on. */
static int lock_claim(const struct images *i, const struct wait *w, struct claim *c)
{
	bool told = false;

	for (;;) {
		c->fd = openat(
			i->claimsfd, c->name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (c->fd < 0)
			return -errno;
		int r = lock_take(c->fd, false);
		if (r == -EWOULDBLOCK && !told) {
			output_waiting(
				i->output, "waiting for another process that makes the same image");
			told = true;
		}
		if (r == -EWOULDBLOCK)
			r = wait_lock(c->fd, w);
		if (r == 0 && is_current(i->claimsfd, c->name, c->fd))
			return 0;
		c->fd = fd_close(c->fd);
		if (r < 0)
			return r;
	}
}

static void name_own(struct claim *c)
{
	char random[17];

	random_hex(random, sizeof(random) - 1);
	(void)snprintf(c->name, sizeof(c->name), "x%s", random);
}

int claim_take(const struct images *i, const char *digest, const struct wait *w, struct claim *ret,
	struct err *e)
{
	struct claim c = {.images = i, .fd = -1};
	int r = -ETIMEDOUT;

	if (digest) {
		(void)snprintf(c.name, sizeof(c.name), "%s", digest + strlen("sha256:"));
		r = lock_claim(i, w, &c);
	}
	if (r == -ETIMEDOUT) {
		name_own(&c);
		r = lock_claim(i, NULL, &c);
	}
	if (r < 0)
		return note_failed(i, -r, e);
	*ret = c;
	return digest ? claim_add(ret, &digest, 1, e) : 0;
}

/* A claim's lines, whole ones only: a worker may have died while it wrote. */
static int read_lines(const struct images *i, const char *name, struct buf *ret)
{
	buf_init(ret, IMAGES_CLAIM_BYTES_MAX);
	int r = file_read(i->claimsfd, name, ret);
	if (r < 0)
		return r;
	ret->len -= ret->len % LINE_BYTES;
	return 0;
}

static bool has_line(const struct buf *lines, const char *digest)
{
	for (size_t at = 0; at < lines->len; at += LINE_BYTES)
		if (memcmp(lines->data + at, digest, LINE_BYTES - 1) == 0)
			return true;
	return false;
}

int claim_add(struct claim *c, const char *const *digests, size_t n, struct err *e)
{
	cleanup_fd int lock = lock_open(c->images->dirfd, IMAGES_LOCK, true);
	cleanup_buf struct buf lines = {0};
	int r = lock < 0 ? lock : read_lines(c->images, c->name, &lines);

	if (r < 0)
		return note_failed(c->images, -r, e);
	size_t known = lines.len;
	for (size_t k = 0; k < n; k++)
		if (!has_line(&lines, digests[k]))
			buf_putf(&lines, "%s\n", digests[k]);
	if (buf_failed(&lines))
		return err_set(e, ERR_LIMIT, 0, "too many blobs at once");
	r = fd_pwrite_all(c->fd, lines.data + known, lines.len - known, (off_t)known);
	/* Also when nothing is new: its age counts. */
	if (r == 0 && futimens(c->fd, NULL) < 0)
		r = -errno;
	return r < 0 ? note_failed(c->images, -r, e) : 0;
}

/* ---- the end ---- */

struct ending {
	const struct claim *claim;
	enum claim_end end;
	struct buf lines;
	bool anything_left;
};

/* Blanks those of our lines that another claim has. */
static void leave_to(struct ending *x, const char *other)
{
	cleanup_buf struct buf lines = {0};

	if (read_lines(x->claim->images, other, &lines) < 0)
		return;
	for (size_t at = 0; at < x->lines.len; at += LINE_BYTES) {
		char *line = (char *)x->lines.data + at;
		if (has_line(&lines, line))
			memset(line, ' ', LINE_BYTES - 1);
	}
}

static int leave_to_others(struct ending *x)
{
	const struct claim *c = x->claim;
	int fd = openat(c->images->claimsfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (!d) {
		int r = -errno;
		(void)fd_close(fd);
		return r;
	}
	while ((de = readdir(d)))
		if (de->d_name[0] != '.' && strcmp(de->d_name, c->name) != 0)
			leave_to(x, de->d_name);
	(void)closedir(d);
	return 0;
}

/* Nobody else has claimed it: removes what is not to stay of one blob. */
static void remove_blob(struct ending *x, const char *hex)
{
	const struct images *i = x->claim->images;
	struct stat st;

	if (fstatat(i->blobsfd, hex, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		(st.st_mode & 0777) == IMAGES_BLOB_FRESH) {
		if (x->end == CLAIM_DISCARD)
			(void)unlinkat(i->blobsfd, hex, 0);
		else
			x->anything_left = true;
	}
	cleanup_fd int fd = openat(i->partialfd, hex, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || lock_take(fd, false) < 0 || fstat(fd, &st) < 0)
		return;
	if (x->end == CLAIM_DISCARD || st.st_size < PARTIAL_MIN)
		(void)unlinkat(i->partialfd, hex, 0);
	else
		x->anything_left = true;
}

/* Holding the folder's lock, so that nobody can claim meanwhile. */
static int remove_unwanted(struct ending *x)
{
	cleanup_fd int lock = lock_open(x->claim->images->dirfd, IMAGES_LOCK, true);
	int r = lock < 0 ? lock : read_lines(x->claim->images, x->claim->name, &x->lines);

	if (r < 0 || (r = leave_to_others(x)) < 0)
		return r;
	for (size_t at = 0; at < x->lines.len; at += LINE_BYTES) {
		char digest[REFERENCE_DIGEST_SIZE];
		(void)snprintf(digest, sizeof(digest), "%.*s", LINE_BYTES - 1,
			(const char *)x->lines.data + at);
		if (reference_is_digest(digest))
			remove_blob(x, digest + strlen("sha256:"));
	}
	return 0;
}

void claim_release(struct claim *c, enum claim_end end)
{
	struct ending x = {.claim = c, .end = end};

	if (c->fd < 0)
		return;
	int r = end == CLAIM_DONE ? 0 : remove_unwanted(&x);
	buf_release(&x.lines);
	if (r < 0)
		log_warn("cannot look through %s/%s: %s", c->images->path, IMAGES_CLAIMS,
			strerror(-r));
	if (!x.anything_left && unlinkat(c->images->claimsfd, c->name, 0) < 0)
		log_warn("cannot remove %s/%s/%s: %s", c->images->path, IMAGES_CLAIMS, c->name,
			strerror(errno));
	c->fd = fd_close(c->fd);
}
