/* SPDX-License-Identifier: Apache-2.0 */
#include "blob.h"

#include "blobs.h"
#include "wait.h"

#include "../base/fd.h"
#include "../base/file.h"
#include "../base/hash.h"
#include "../base/log.h"
#include "../base/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_CHUNK (256u * 1024)

static struct blob *of(struct sink *s)
{
	return (struct blob *)s;
}

static const char *hex_of(const struct blob *b)
{
	return b->descriptor.digest + strlen("sha256:");
}

static int write_failed(const struct blob *b, int errnum, struct err *e)
{
	char size[TEXT_SIZE_MAX], what[sizeof(b->what) + TEXT_SIZE_MAX + 8];

	text_size(b->descriptor.size, size);
	(void)snprintf(what, sizeof(what), "%s of %s", b->what, size);
	return images_write_error(b->images, errnum, what, e);
}

/* ---- the sink ---- */

static int start_hash(struct blob *b, struct err *e)
{
	sha256_freep(&b->hash);
	b->hash = sha256_new();
	b->done = 0;
	b->continued = false;
	return b->hash ? 0 : err_errno(e, ENOMEM, "%s", b->what);
}

static int rewind_to_start(struct blob *b, struct err *e)
{
	if (ftruncate(b->fd, 0) < 0)
		return write_failed(b, errno, e);
	return start_hash(b, e);
}

static uint64_t blob_offset(struct sink *s)
{
	return of(s)->done;
}

static uint64_t blob_size(struct sink *s)
{
	return of(s)->descriptor.size;
}

static int too_long(struct blob *b, struct err *e)
{
	return err_set(e, ERR_CORRUPT, 0, "%s is longer than the %llu bytes that the manifest says",
		b->what, (unsigned long long)b->descriptor.size);
}

static int blob_begin(struct sink *s, uint64_t offset, int64_t length, struct err *e)
{
	struct blob *b = of(s);

	if (offset != b->done || offset == 0) {
		int r = rewind_to_start(b, e);
		if (r < 0)
			return r;
	}
	if (length > 0 && (uint64_t)length > b->descriptor.size - b->done)
		return too_long(b, e);
	return 0;
}

static int blob_data(struct sink *s, const void *data, size_t len, struct err *e)
{
	struct blob *b = of(s);

	if (len > b->descriptor.size - b->done)
		return too_long(b, e);
	int r = fd_pwrite_all(b->fd, data, len, (off_t)b->done);
	if (r < 0)
		return write_failed(b, -r, e);
	sha256_update(b->hash, data, len);
	b->done += len;
	output_layer(b->images->output, &b->pace, b->descriptor.digest, b->descriptor.size, b->done,
		false);
	return 0;
}

void blob_tell(struct blob *b)
{
	bool here = b->state == BLOB_HERE;

	if (here && b->fetched && !b->told)
		output_layer(b->images->output, &b->pace, b->descriptor.digest, b->descriptor.size,
			b->descriptor.size, true);
	else if (here ? !b->told : !b->announced)
		output_layer_state(
			b->images->output, b->descriptor.digest, b->descriptor.size, here);
	b->told = here;
	b->announced = true;
}

/* The reader is opened before the file gets its place: unlike a kept blob it need not be hashed
 * again. */
static int keep(struct blob *b, struct err *e)
{
	cleanup_fd int reader = openat(b->dirfd, hex_of(b), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (reader < 0)
		return err_errno(e, errno, "%s", b->what);
	int r = blobs_adopt(b->images, b->dirfd, hex_of(b), b->descriptor.digest, e);
	if (r < 0)
		return r;
	b->reader = fd_take(&reader);
	b->fd = fd_close(b->fd);
	b->fetched = true;
	b->state = BLOB_HERE;
	blob_tell(b);
	return 0;
}

/* The whole is there and hashed: 0 when the digest is right and the blob is kept. */
static int check_whole(struct blob *b, struct err *e)
{
	char hex[SHA256_HEX_SIZE];

	sha256_hex(b->hash, hex);
	if (strcmp(hex, hex_of(b)) == 0)
		return keep(b, e);
	bool continued = b->continued;
	int r = rewind_to_start(b, e);
	if (r < 0)
		return r;
	(void)err_set(e, ERR_CORRUPT, 0, "%s: what was sent has another digest (sha256:%s)",
		b->what, hex);
	(void)err_hint(e, "pull again; if it stays so, the registry's copy is damaged");
	return continued ? -EAGAIN : err_code(e);
}

static int blob_end(struct sink *s, struct err *e)
{
	struct blob *b = of(s);

	if (b->done < b->descriptor.size) {
		(void)err_set(e, ERR_UNAVAILABLE, 0, "%s ended after %llu of %llu bytes", b->what,
			(unsigned long long)b->done, (unsigned long long)b->descriptor.size);
		return -EAGAIN;
	}
	return check_whole(b, e);
}

/* ---- what is there ---- */

/* Hashes what an earlier worker left. A file that is too long is started anew. */
static int read_existing(struct blob *b, struct err *e)
{
	struct stat st;
	ssize_t n = 0;

	if (fstat(b->fd, &st) < 0)
		return err_errno(e, errno, "%s", b->what);
	if ((uint64_t)st.st_size > b->descriptor.size)
		return 0;
	char *chunk = malloc(READ_CHUNK);
	if (!chunk)
		return err_errno(e, ENOMEM, "%s", b->what);
	while ((n = fd_pread_full(b->fd, chunk, READ_CHUNK, (off_t)b->done)) > 0) {
		sha256_update(b->hash, chunk, (size_t)n);
		b->done += (uint64_t)n;
	}
	free(chunk);
	if (n < 0)
		return err_errno(e, (int)-n, "%s", b->what);
	b->continued = b->done > 0;
	return 0;
}

/* fd is ours to write. */
static int begin_writing(struct blob *b, enum blob_state state, struct err *e)
{
	int r = start_hash(b, e);

	b->state = state;
	if (r < 0 || (r = read_existing(b, e)) < 0)
		return r;
	if (b->done == 0)
		return rewind_to_start(b, e);
	log_debug("%s: %llu bytes are here already", b->what, (unsigned long long)b->done);
	if (b->done < b->descriptor.size)
		return 0;
	r = check_whole(b, e);
	return r == -EAGAIN ? 0 : r;
}

/* A kept blob of the right size, opened: 1; 0 when there is none. */
static int open_kept(struct blob *b, struct err *e)
{
	struct err why;
	uint64_t size;
	cleanup_fd int fd = blobs_open(b->images, b->descriptor.digest, &size, &why);

	if (fd < 0 && why.kind == ERR_NOT_FOUND)
		return 0;
	if (fd < 0) {
		*e = why;
		return fd;
	}
	if (size != b->descriptor.size) {
		if (blobs_verify(b->images, b->descriptor.digest, &why) < 0)
			return 0;
		return err_set(e, ERR_CORRUPT, 0,
			"%s has %llu bytes, not the %llu that the manifest says", b->what,
			(unsigned long long)size, (unsigned long long)b->descriptor.size);
	}
	b->reader = fd_take(&fd);
	b->state = BLOB_HERE;
	return 1;
}

/* The lock of partial/HEX, made when it is missing: a descriptor, or -EWOULDBLOCK. The holder moves
 * the file away before it lets go, so what we have locked may have another name by now. */
static int lock_partial(const struct blob *b)
{
	struct stat ours, named;

	for (;;) {
		cleanup_fd int fd = lock_open(b->images->partialfd, hex_of(b), false);
		if (fd < 0)
			return fd;
		if (fstat(fd, &ours) < 0)
			return -errno;
		if (fstatat(b->images->partialfd, hex_of(b), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
			ours.st_ino == named.st_ino && ours.st_dev == named.st_dev)
			return S_ISREG(ours.st_mode) ? fd_take(&fd) : -EINVAL;
	}
}

int blob_look(struct blob *b, struct err *e)
{
	assert(b->state == BLOB_ABSENT);
	int r = open_kept(b, e);
	if (r != 0)
		return r < 0 ? r : 0;
	b->fd = lock_partial(b);
	if (b->fd == -EWOULDBLOCK) {
		b->fd = -1;
		return 0;
	}
	if (b->fd < 0) {
		int errnum = -b->fd;
		b->fd = -1;
		return write_failed(b, errnum, e);
	}
	/* The former holder may have finished between our look and our lock. */
	r = open_kept(b, e);
	if (r != 0) {
		(void)unlinkat(b->images->partialfd, hex_of(b), 0);
		b->fd = fd_close(b->fd);
		return r < 0 ? r : 0;
	}
	b->dirfd = b->images->partialfd;
	return begin_writing(b, BLOB_OURS, e);
}

struct partial_wait {
	struct wait wait; /* first */
	const struct blob *blob;
};

static uint64_t partial_size(const struct wait *w)
{
	const struct blob *b = ((const struct partial_wait *)w)->blob;
	struct stat st;

	return fstatat(b->images->partialfd, hex_of(b), &st, AT_SYMLINK_NOFOLLOW) == 0
		       ? (uint64_t)st.st_size
		       : 0;
}

int blob_wait(struct blob *b, const struct workdir *w, struct err *e)
{
	const struct partial_wait wait = {{partial_size}, b};

	assert(b->state == BLOB_ABSENT);
	cleanup_fd int fd =
		openat(b->images->partialfd, hex_of(b), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	int r = fd < 0 ? -errno : wait_lock(fd, &wait.wait);
	if (r == 0 || r == -ENOENT)
		return 0;
	if (r != -ETIMEDOUT)
		return err_errno(e, -r, "%s", b->what);
	log_debug("%s: the other process does not get on", b->what);
	b->fd = openat(w->fd, hex_of(b), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (b->fd < 0)
		return write_failed(b, errno, e);
	b->dirfd = w->fd;
	return begin_writing(b, BLOB_PRIVATE, e);
}

bool blob_drop_damaged(struct blob *b)
{
	struct err damage;

	if (b->state != BLOB_HERE || b->fetched ||
		blobs_verify(b->images, b->descriptor.digest, &damage) == 0)
		return false;
	log_warn("%s", damage.what);
	b->reader = fd_close(b->reader);
	b->state = BLOB_ABSENT;
	return true;
}

void blob_init(struct blob *b, const struct images *i, const struct descriptor *d)
{
	*b = (struct blob){.sink = {blob_offset, blob_begin, blob_data, blob_end, blob_size},
		.images = i,
		.descriptor = *d,
		.dirfd = -1,
		.fd = -1,
		.reader = -1};
	(void)snprintf(b->what, sizeof(b->what), "layer %s", d->digest);
}

void blob_release(struct blob *b)
{
	b->fd = fd_close(b->fd);
	b->reader = fd_close(b->reader);
	sha256_freep(&b->hash);
}
