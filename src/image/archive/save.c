/* SPDX-License-Identifier: Apache-2.0 */
#include "save.h"

#include "../blobs.h"
#include "saved.h"
#include "tar-writer.h"

#include "../../base/fd.h"
#include "../../base/file.h"
#include "../../base/hash.h"
#include "../../base/json.h"
#include "../../base/strv.h"
#include "../../proto/images-dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define CHUNK (256u * 1024)
#define LAYOUT "{\"imageLayoutVersion\":\"1.0.0\"}"

struct save_blob {
	char digest[REFERENCE_DIGEST_SIZE];
	uint64_t size;
	int fd;
};

struct save {
	const struct images *images;
	struct saved saved;
	struct save_blob *blobs; /* each once, sorted */
	size_t len, cap;
	struct tar_writer *tar;
	char *chunk;
};

static int add_blob(struct save *s, const char *digest, uint64_t size, struct err *e)
{
	if (s->len == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 64;
		struct save_blob *more = reallocarray(s->blobs, cap, sizeof(*more));
		if (!more)
			return err_errno(e, ENOMEM, "listing the blobs");
		s->blobs = more;
		s->cap = cap;
	}
	struct save_blob *b = &s->blobs[s->len++];
	*b = (struct save_blob){.size = size, .fd = -1};
	(void)snprintf(b->digest, sizeof(b->digest), "%s", digest);
	return 0;
}

static int list_image(struct save *s, const struct saved_image *image, struct err *e)
{
	const struct manifest *m = &image->manifest;
	int r;

	if ((r = add_blob(s, image->digest, image->size, e)) < 0 ||
		(r = add_blob(s, m->config.digest, m->config.size, e)) < 0)
		return r;
	for (size_t i = 0; i < m->len; i++)
		if ((r = add_blob(s, m->descriptors[i].digest, m->descriptors[i].size, e)) < 0)
			return r;
	return 0;
}

static int compare_blobs(const void *a, const void *b)
{
	return strcmp(((const struct save_blob *)a)->digest, ((const struct save_blob *)b)->digest);
}

static void sort_blobs(struct save *s)
{
	size_t n = 0;

	qsort(s->blobs, s->len, sizeof(s->blobs[0]), compare_blobs);
	for (size_t i = 0; i < s->len; i++)
		if (n == 0 || strcmp(s->blobs[n - 1].digest, s->blobs[i].digest) != 0)
			s->blobs[n++] = s->blobs[i];
	s->len = n;
}

static int damaged(const struct save *s, const struct save_blob *b, struct err *e)
{
	int r = blobs_verify(s->images, b->digest, e);

	if (r < 0)
		return r;
	return err_set(
		e, ERR_CORRUPT, 0, "the blob %s is not the one that its image has", b->digest);
}

static int open_blob(const struct save *s, struct save_blob *b, struct err *e)
{
	uint64_t size;

	b->fd = blobs_open_unchecked(s->images, b->digest, &size, e);
	if (b->fd < 0) {
		if (e->kind == ERR_NOT_FOUND)
			(void)err_hint(e, "pull or load the image again");
		return err_code(e);
	}
	return size == b->size ? 0 : damaged(s, b, e);
}

/* As many as the system lets us: one image may have 129. */
static void raise_fd_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* All that will be written, under the folder's lock: what is open cannot be swept away. */
static int open_all(struct save *s, char *const *operands, size_t n, struct err *e)
{
	cleanup_fd int lock = lock_open(s->images->dirfd, IMAGES_LOCK, true);
	int r;

	if (lock < 0)
		return err_errno(e, -lock, "cannot lock %s", s->images->path);
	raise_fd_limit();
	if ((r = saved_read(s->images, operands, n, &s->saved, e)) < 0)
		return r;
	for (size_t i = 0; i < s->saved.images_len; i++)
		if ((r = list_image(s, &s->saved.images[i], e)) < 0)
			return r;
	sort_blobs(s);
	for (size_t i = 0; i < s->len; i++)
		if ((r = open_blob(s, &s->blobs[i], e)) < 0)
			return r;
	return 0;
}

/* Hashed as it is written: what came back is what was published. */
static int write_content(const struct save *s, const struct save_blob *b, struct err *e)
{
	cleanup_sha256 struct sha256 *hash = sha256_new();
	char hex[SHA256_HEX_SIZE];

	if (!hash)
		return err_errno(e, ENOMEM, "the blob %s", b->digest);
	for (uint64_t left = b->size; left > 0;) {
		size_t want = left < CHUNK ? (size_t)left : CHUNK;
		ssize_t n = fd_read_full(b->fd, s->chunk, want);
		if (n < 0)
			return err_errno(e, (int)-n, "cannot read the blob %s", b->digest);
		if ((size_t)n < want)
			return damaged(s, b, e);
		sha256_update(hash, s->chunk, want);
		int r = tar_writer_data(s->tar, s->chunk, want, e);
		if (r < 0)
			return r;
		left -= want;
	}
	sha256_hex(hash, hex);
	return strcmp(hex, b->digest + strlen("sha256:")) == 0 ? 0 : damaged(s, b, e);
}

static int write_blob(const struct save *s, const struct save_blob *b, struct err *e)
{
	char name[100];
	int r;

	(void)snprintf(name, sizeof(name), "blobs/sha256/%s", b->digest + strlen("sha256:"));
	if ((r = tar_writer_file(s->tar, name, b->size, e)) < 0)
		return r;
	return write_content(s, b, e);
}

static int write_document(
	const struct save *s, const char *name, const void *data, size_t len, struct err *e)
{
	int r = tar_writer_file(s->tar, name, len, e);

	return r < 0 ? r : tar_writer_data(s->tar, data, len, e);
}

static int write_all(struct save *s, uint64_t *ret_bytes, struct err *e)
{
	cleanup_buf struct buf index = {0};
	cleanup_buf struct buf docker = {0};
	int r;

	if ((r = saved_put_index(&s->saved, &index, e)) < 0 ||
		(r = saved_put_docker_manifest(&s->saved, &docker, e)) < 0 ||
		(r = tar_writer_folder(s->tar, "blobs/", e)) < 0 ||
		(r = tar_writer_folder(s->tar, "blobs/sha256/", e)) < 0)
		return r;
	for (size_t i = 0; i < s->len; i++)
		if ((r = write_blob(s, &s->blobs[i], e)) < 0)
			return r;
	if ((r = write_document(s, "index.json", index.data, index.len, e)) < 0 ||
		(r = write_document(s, "manifest.json", docker.data, docker.len, e)) < 0 ||
		(r = write_document(s, "oci-layout", LAYOUT, strlen(LAYOUT), e)) < 0)
		return r;
	return tar_writer_end(s->tar, ret_bytes, e);
}

static int save(struct save *s, char *const *operands, size_t n, uint64_t *ret_bytes, struct err *e)
{
	int flags = fcntl(SAVE_FD, F_GETFL), r;

	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
		return err_set(
			e, ERR_USAGE, EBADF, "descriptor %d is not open for writing", SAVE_FD);
	s->chunk = malloc(CHUNK);
	if (!s->chunk)
		return err_errno(e, ENOMEM, "cannot write the archive");
	if ((r = open_all(s, operands, n, e)) < 0 || (r = tar_writer_new(SAVE_FD, &s->tar, e)) < 0)
		return r;
	return write_all(s, ret_bytes, e);
}

int save_images(
	char *const *operands, size_t n, const struct images *images, json_t **ret, struct err *e)
{
	struct save *s = calloc(1, sizeof(*s));
	uint64_t bytes;

	if (!s)
		return err_errno(e, ENOMEM, "cannot write the archive");
	s->images = images;
	int r = save(s, operands, n, &bytes, e);
	for (size_t i = 0; i < s->len; i++)
		(void)fd_close(s->blobs[i].fd);
	free(s->blobs);
	saved_release(&s->saved);
	tar_writer_freep(&s->tar);
	free(s->chunk);
	free(s);
	if (r < 0)
		return r;
	*ret = json_pack("{s:b, s:I}", "ok", 1, "size", (json_int_t)bytes);
	return *ret ? 0 : err_errno(e, ENOMEM, "the result");
}
