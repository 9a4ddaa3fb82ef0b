/* SPDX-License-Identifier: Apache-2.0 */
#include "dir.h"

#include "server.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIECE_MAX (16u << 20)
#define READ_SIZE (256u << 10)
/* Beyond it all readers together take small pieces. */
#define ALL_MAX (128u << 20)

/* struct linux_dirent64 of getdents64(2). */
struct record {
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

struct dir_names {
	unsigned char *data;
	size_t len, cap;
	size_t at;	 /* the next record */
	uint64_t at_off; /* the offset after which it comes */
	uint64_t begin;	 /* the offset of data's begin */
	bool end;	 /* nothing comes after data */
};

static size_t held; /* by all readers */

void dir_names_free(struct dir_names *d)
{
	if (!d)
		return;
	held -= d->cap;
	free(d->data);
	free(d);
}

static int grow(struct dir_names *d)
{
	size_t cap = d->cap ? d->cap * 2 : READ_SIZE;
	unsigned char *p = realloc(d->data, cap);

	if (!p)
		return -ENOMEM;
	held += cap - d->cap;
	d->data = p;
	d->cap = cap;
	return 0;
}

/* The names after where fd stands. */
static int read_piece(struct dir_names *d, int fd, uint64_t begin)
{
	size_t max = held > ALL_MAX ? READ_SIZE : PIECE_MAX;

	d->len = d->at = 0;
	d->begin = d->at_off = begin;
	d->end = false;
	while (d->len + READ_SIZE / 2 < max) {
		if (d->cap - d->len < READ_SIZE / 2 && grow(d) < 0)
			return -ENOMEM;
		long n = syscall(SYS_getdents64, fd, d->data + d->len, d->cap - d->len);
		if (n < 0)
			return -errno;
		if (n == 0) {
			d->end = true;
			break;
		}
		d->len += (size_t)n;
	}
	return 0;
}

static const struct record *record_at(const struct dir_names *d)
{
	return (const struct record *)(const void *)(d->data + d->at);
}

static void step(struct dir_names *d)
{
	const struct record *r = record_at(d);

	d->at_off = (uint64_t)r->off;
	d->at += r->len;
}

static bool seek_known(struct dir_names *d, uint64_t off)
{
	if (off == d->at_off)
		return true;
	d->at = 0;
	d->at_off = d->begin;
	while (d->at_off != off && d->at < d->len)
		step(d);
	return d->at_off == off;
}

/* Stands behind that offset. 0 begins anew, with what is there now. */
static int seek(struct handle *h, int fd, uint64_t off)
{
	if (!h->names)
		h->names = calloc(1, sizeof(*h->names));
	else if (off != 0 && seek_known(h->names, off))
		return 0;
	if (!h->names)
		return -ENOMEM;
	if (lseek(fd, (off_t)off, SEEK_SET) < 0)
		return -errno;
	return read_piece(h->names, fd, off);
}

static int next(struct dir_names *d, int fd, const struct record **ret)
{
	if (d->at == d->len && !d->end) {
		int r = read_piece(d, fd, d->at_off);
		if (r < 0)
			return r;
	}
	*ret = d->at < d->len ? record_at(d) : NULL;
	return 0;
}

static void put_dirent(unsigned char *out, const struct record *r, size_t name_len)
{
	struct fuse_dirent d = {.ino = r->ino,
		.off = (uint64_t)r->off,
		.namelen = (uint32_t)name_len,
		.type = r->type};

	memcpy(out, &d, FUSE_NAME_OFFSET);
	memcpy(out + FUSE_NAME_OFFSET, r->name, name_len);
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

struct reading {
	struct fs *fs;
	struct request *q;
	struct handle *handle;
	int fd;
	bool plus;
};

/* Writes one entry; its size, or 0 when it does not fit. */
static size_t put_entry(
	const struct reading *g, const struct record *r, unsigned char *out, size_t left)
{
	size_t name_len = strlen(r->name);
	size_t head = g->plus ? sizeof(struct fuse_entry_out) : 0;
	size_t size = FUSE_REC_ALIGN(head + FUSE_NAME_OFFSET + name_len);
	struct fuse_entry_out entry = {0};

	if (size > left)
		return 0;
	memset(out, 0, size);
	/* One that cannot be looked at is only named. */
	if (g->plus && !is_dots(r->name) && entry_of(g->fs, g->q->node, g->fd, r->name, &entry) < 0)
		entry = (struct fuse_entry_out){0};
	memcpy(out, &entry, head);
	put_dirent(out + head, r, name_len);
	return size;
}

static int read_names(const struct reading *g, uint32_t size)
{
	const struct record *r;
	size_t len = 0;

	for (;;) {
		int x = next(g->handle->names, g->fd, &r);
		if (x < 0)
			return len > 0 ? (int)len : x;
		if (!r)
			return (int)len;
		if (strlen(r->name) <= NODE_NAME_MAX) {
			size_t n = put_entry(g, r, g->q->out + len, size - len);
			if (n == 0)
				return (int)len;
			len += n;
		}
		step(g->handle->names);
	}
}

static int read_request(struct fs *fs, struct request *q, bool plus)
{
	struct reading g = {.fs = fs, .q = q, .plus = plus};
	struct fuse_read_in in;
	int r;

	if (!take(q, &in, sizeof(in)))
		return -EINVAL;
	g.handle = handle_get(&fs->handles, in.fh);
	if (!g.handle || g.handle->node != q->node)
		return -EBADF;
	if (q->node->type != S_IFDIR)
		return -ENOTDIR;
	if ((g.fd = handle_fd(fs, g.handle)) < 0)
		return g.fd;
	watch_folder(fs, q->node, g.fd);
	if (in.offset > INT64_MAX)
		return -EINVAL;
	if ((r = seek(g.handle, g.fd, in.offset)) < 0)
		return r;
	return read_names(&g, in.size < FS_DATA_MAX ? in.size : FS_DATA_MAX);
}

int op_readdir(struct fs *fs, struct request *q)
{
	return read_request(fs, q, false);
}

int op_readdirplus(struct fs *fs, struct request *q)
{
	return read_request(fs, q, true);
}
