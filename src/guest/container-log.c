/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every file but the first begins with LOG_LOST: who begins to read there has missed what was in
 * the files before it. Who comes from the file before skips it.
 */
#include "container-log.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#define LOG_NAME "log"
#define LOG_OLD_NAME "log.1"
#define LOG_NEXT_NAME "log.next"
/* Read at once; holds any record. */
#define CHUNK (64u * 1024)

static unsigned char chunk[CHUNK];

void container_log_init(struct container_log *l, int dirfd)
{
	*l = (struct container_log){.dirfd = dirfd, .fd = -1};
}

void container_log_close(struct container_log *l)
{
	l->fd = fd_close(l->fd);
}

/* The length of the whole records at the beginning of data. */
static size_t whole_records(const unsigned char *data, size_t len)
{
	struct log_record r;
	size_t at = 0;
	int n;

	while ((n = log_record_parse(data + at, len - at, &r)) > 0)
		at += (size_t)n;
	return at;
}

/* Where the last whole record ends. */
static int find_end(int fd, uint64_t *ret)
{
	uint64_t offset = 0;

	for (;;) {
		ssize_t n = fd_pread_full(fd, chunk, sizeof(chunk), (off_t)offset);
		size_t whole = n < 0 ? 0 : whole_records(chunk, (size_t)n);
		if (n < 0)
			return (int)n;
		if (whole == 0)
			break;
		offset += whole;
	}
	*ret = offset;
	return 0;
}

int container_log_open(struct container_log *l, struct err *e)
{
	cleanup_fd int fd = openat(
		l->dirfd, LOG_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
	uint64_t end = 0;

	int r = fd < 0 ? -errno : find_end(fd, &end);
	if (r == 0 && ftruncate(fd, (off_t)end) < 0)
		r = -errno;
	if (r < 0)
		return err_errno(e, -r, "the container's log");
	l->size = end;
	l->fd = fd_take(&fd);
	return 0;
}

/* All or nothing: what was written of it is cut off again. */
static int write_whole(int fd, const struct iovec *iov, int count, uint64_t offset)
{
	size_t len = 0;
	ssize_t n;

	for (int i = 0; i < count; i++)
		len += iov[i].iov_len;
	do
		n = pwritev(fd, iov, count, (off_t)offset);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)len)
		return 0;
	int r = n < 0 ? -errno : -ENOSPC;
	(void)!ftruncate(fd, (off_t)offset);
	return r;
}

/* The next file is complete before it gets its name, so a full disk leaves the log as it was. */
static int begin_file(struct container_log *l, uint64_t wall_ns)
{
	unsigned char lost[LOG_HEADER_SIZE];
	const struct iovec iov = {.iov_base = lost, .iov_len = sizeof(lost)};
	cleanup_fd int fd = openat(l->dirfd, LOG_NEXT_NAME,
		O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);

	if (fd < 0)
		return -errno;
	log_header_encode(wall_ns, LOG_LOST, 0, lost);
	int r = write_whole(fd, &iov, 1, 0);
	if (r == 0 && (renameat(l->dirfd, LOG_NAME, l->dirfd, LOG_OLD_NAME) < 0 ||
			      renameat(l->dirfd, LOG_NEXT_NAME, l->dirfd, LOG_NAME) < 0))
		r = -errno;
	if (r < 0) {
		(void)unlinkat(l->dirfd, LOG_NEXT_NAME, 0);
		return r;
	}
	container_log_close(l);
	l->fd = fd_take(&fd);
	l->size = sizeof(lost);
	l->generation++;
	return 0;
}

static int append_record(struct container_log *l, uint64_t wall_ns, enum log_which which,
	const void *data, uint32_t len)
{
	unsigned char lost[LOG_HEADER_SIZE], header[LOG_HEADER_SIZE];
	struct iovec iov[3];
	int count = 0;
	uint64_t size = sizeof(header) + len + (l->lost ? sizeof(lost) : 0);

	if (l->size + size > LOG_FILE_MAX) {
		int r = begin_file(l, wall_ns);
		if (r < 0)
			return r;
	}
	log_header_encode(wall_ns, LOG_LOST, 0, lost);
	log_header_encode(wall_ns, which, len, header);
	if (l->lost)
		iov[count++] = (struct iovec){.iov_base = lost, .iov_len = sizeof(lost)};
	iov[count++] = (struct iovec){.iov_base = header, .iov_len = sizeof(header)};
	iov[count++] = (struct iovec){.iov_base = (void *)data, .iov_len = len};
	int r = write_whole(l->fd, iov, count, l->size);
	if (r == 0)
		l->size += size;
	return r;
}

void container_log_append(struct container_log *l, uint64_t wall_ns, enum log_which which,
	const void *data, size_t len)
{
	const unsigned char *at = data;

	while (len > 0) {
		uint32_t part = len < LOG_DATA_MAX ? (uint32_t)len : LOG_DATA_MAX;
		int r = l->fd < 0 ? -EBADF : append_record(l, wall_ns, which, at, part);

		l->lost = r < 0;
		at += part;
		len -= part;
	}
}

void container_log_reader_init(struct container_log_reader *r)
{
	*r = (struct container_log_reader){.fd = -1};
}

void container_log_reader_release(struct container_log_reader *r)
{
	r->fd = fd_close(r->fd);
}

/* generation: of the log as it is now, or one less. */
static int enter_file(
	const struct container_log *l, struct container_log_reader *r, uint64_t generation)
{
	const char *name = generation == l->generation ? LOG_NAME : LOG_OLD_NAME;
	int fd = openat(l->dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return -errno;
	container_log_reader_release(r);
	r->fd = fd;
	r->offset = 0;
	r->generation = generation;
	return 0;
}

/* At the oldest that there is. A container that never had a log has an empty one. */
static int enter_first(const struct container_log *l, struct container_log_reader *r)
{
	int n = enter_file(l, r, l->generation - 1);

	return n == -ENOENT ? enter_file(l, r, l->generation) : n;
}

/* After the end of a file that is no longer the current one. */
static int enter_next(const struct container_log *l, struct container_log_reader *r)
{
	struct log_record first;
	bool missed = l->generation - r->generation > 2;
	int n = enter_file(l, r, missed ? l->generation - 1 : r->generation + 1);

	if (n < 0 || missed)
		return n;
	ssize_t got = fd_pread_full(r->fd, chunk, LOG_HEADER_SIZE, 0);
	if (got > 0 && log_record_parse(chunk, (size_t)got, &first) > 0 && first.which == LOG_LOST)
		r->offset = LOG_HEADER_SIZE;
	return got < 0 ? (int)got : 0;
}

/* Takes what it may of the chunk: the number of bytes that are done with. */
static size_t take_records(size_t len, uint64_t since_ns, struct buf *b, size_t *max_bytes)
{
	struct log_record rec;
	size_t at = 0;
	int n;

	while ((n = log_record_parse(chunk + at, len - at, &rec)) > 0) {
		if (rec.wall_ns >= since_ns) {
			if ((size_t)n > *max_bytes)
				break;
			buf_put(b, chunk + at, (size_t)n);
			*max_bytes -= (size_t)n;
		}
		at += (size_t)n;
	}
	return at;
}

int container_log_read(const struct container_log *l, struct container_log_reader *r,
	uint64_t since_ns, struct buf *b, size_t max_bytes)
{
	size_t before = b->len;
	int n = r->fd < 0 ? enter_first(l, r) : 0;

	if (n < 0)
		return n == -ENOENT ? 0 : n;
	ssize_t got = fd_pread_full(r->fd, chunk, sizeof(chunk), (off_t)r->offset);
	if (got < 0)
		return (int)got;
	size_t done = take_records((size_t)got, since_ns, b, &max_bytes);
	if (buf_failed(b))
		return -ENOMEM;
	r->offset += done;
	if (done > 0 || b->len > before)
		return 1;
	/* No whole record: the end, or what a power loss left; or no room for the next one. */
	struct log_record rec;
	if (log_record_parse(chunk, (size_t)got, &rec) > 0)
		return 1;
	if (r->generation == l->generation)
		return 0;
	n = enter_next(l, r);
	return n < 0 ? n : 1;
}
