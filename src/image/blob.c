/* SPDX-License-Identifier: Apache-2.0 */
#include "blob.h"

#include "../base/fd.h"
#include "../base/hash.h"
#include "../base/log.h"
#include "../base/text.h"

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
	return images_write_error(b->workdir->images, errnum, what, e);
}

static int rewind_to_start(struct blob *b, struct err *e)
{
	sha256_freep(&b->hash);
	b->hash = sha256_new();
	b->done = 0;
	b->continued = false;
	if (!b->hash)
		return err_errno(e, ENOMEM, "%s", b->what);
	if (ftruncate(b->fd, 0) < 0)
		return write_failed(b, errno, e);
	return 0;
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
	output_layer(b->workdir->images->output, &b->pace, b->descriptor.digest, b->descriptor.size,
		b->done, false);
	return 0;
}

/* The whole is there and hashed: 0 when the digest is right and the file has its final name. */
static int check_whole(struct blob *b, struct err *e)
{
	char hex[SHA256_HEX_SIZE];

	sha256_hex(b->hash, hex);
	if (strcmp(hex, hex_of(b)) != 0) {
		bool continued = b->continued;
		int r = rewind_to_start(b, e);
		if (r < 0)
			return r;
		(void)err_set(e, ERR_CORRUPT, 0, "%s: what was sent has another digest (sha256:%s)",
			b->what, hex);
		(void)err_hint(e, "pull again; if it stays so, the registry's copy is damaged");
		return continued ? -EAGAIN : err_code(e);
	}
	if (renameat(b->workdir->fd, b->part, b->workdir->fd, b->final) < 0)
		return write_failed(b, errno, e);
	b->fd = fd_close(b->fd);
	b->complete = true;
	output_layer(b->workdir->images->output, &b->pace, b->descriptor.digest, b->descriptor.size,
		b->done, true);
	return 0;
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

/* Hashes what the file holds. A file that is too long is started anew. */
static int read_existing(struct blob *b, int fd, struct err *e)
{
	struct stat st;
	char *chunk = NULL;
	ssize_t n = 0;

	if (fstat(fd, &st) < 0)
		return err_errno(e, errno, "%s", b->what);
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > b->descriptor.size)
		return 0;
	chunk = malloc(READ_CHUNK);
	if (!chunk)
		return err_errno(e, ENOMEM, "%s", b->what);
	while ((n = fd_pread_full(fd, chunk, READ_CHUNK, (off_t)b->done)) > 0) {
		sha256_update(b->hash, chunk, (size_t)n);
		b->done += (uint64_t)n;
	}
	free(chunk);
	if (n < 0)
		return err_errno(e, (int)-n, "%s", b->what);
	b->continued = b->done > 0;
	return 0;
}

/* A blob that an earlier worker finished: it may not have reached the disk, so it becomes a .part
 * that is checked again. */
static int take_existing(struct blob *b, struct err *e)
{
	int dir = b->workdir->fd;
	int r;

	if (renameat(dir, b->final, dir, b->part) < 0 && errno != ENOENT)
		return err_errno(e, errno, "%s", b->what);
	b->fd = openat(dir, b->part, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (b->fd < 0)
		return write_failed(b, errno, e);
	if ((r = read_existing(b, b->fd, e)) < 0)
		return r;
	if (b->done == 0)
		return rewind_to_start(b, e);
	log_debug("%s: %llu bytes are here already", b->what, (unsigned long long)b->done);
	if (b->done < b->descriptor.size)
		return 0;
	r = check_whole(b, e);
	return r == -EAGAIN ? 0 : r;
}

int blob_init(struct blob *b, const struct workdir *w, const struct descriptor *d, struct err *e)
{
	*b = (struct blob){.sink = {blob_offset, blob_begin, blob_data, blob_end, blob_size},
		.workdir = w,
		.descriptor = *d,
		.fd = -1};
	(void)snprintf(b->final, sizeof(b->final), "sha256-%s", hex_of(b));
	(void)snprintf(b->part, sizeof(b->part), "sha256-%.64s.part", hex_of(b));
	(void)snprintf(b->what, sizeof(b->what), "layer %s", d->digest);
	b->hash = sha256_new();
	int r = b->hash ? take_existing(b, e) : err_errno(e, ENOMEM, "%s", b->what);
	if (r < 0)
		blob_release(b);
	return r;
}

void blob_release(struct blob *b)
{
	b->fd = fd_close(b->fd);
	sha256_freep(&b->hash);
}

int blob_open(const struct blob *b, struct err *e)
{
	int fd = openat(b->workdir->fd, b->final, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_errno(e, errno, "%s", b->what) : fd;
}
