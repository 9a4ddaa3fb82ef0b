/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sweep. While it holds the folder's lock nobody can add to a claim or change which images
 * exist, so what is in neither is nobody's. A worker that claims afterwards looks for its files
 * after that.
 *
 * A claim is removed only with its lock held: who waits for it sees then that the file has lost its
 * name (image/claim.c). A file that somebody has open stays readable for them.
 */
#include "image-sweep.h"

#include "catalog-internal.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/file.h"
#include "../base/text.h"
#include "../proto/images-dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEX 64
#define DIGEST_PREFIX "sha256:"
#define TREE_DEPTH_MAX 16

/* Digests as 64 hex digits; sorted before they are looked for. */
struct names {
	char (*items)[HEX + 1];
	size_t len, room;
};

struct image_files {
	struct names rows;
};

struct sweep {
	struct image_sweep *s;
	struct names rows;   /* what images of the catalog need */
	struct names claims; /* what workers need, or the next one may continue with */
	struct err first;    /* of what could not be removed */
	int failed;
};

static bool is_hex(const char *s, size_t len)
{
	return strspn(s, "0123456789abcdef") >= len;
}

static bool is_digest_name(const char *s)
{
	return strlen(s) == HEX && is_hex(s, HEX);
}

static int names_add(struct names *n, const char *hex, struct err *e)
{
	if (n->len == n->room) {
		size_t room = n->room ? 2 * n->room : 64;
		void *items = reallocarray(n->items, room, sizeof(n->items[0]));
		if (!items)
			return db_out_of_memory(e);
		n->items = items;
		n->room = room;
	}
	memcpy(n->items[n->len], hex, HEX);
	n->items[n->len++][HEX] = '\0';
	return 0;
}

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, HEX);
}

static void names_sort(struct names *n)
{
	if (n->len > 0)
		qsort(n->items, n->len, sizeof(n->items[0]), compare);
}

static bool names_have(const struct names *n, const char *hex)
{
	return n->len > 0 && bsearch(hex, n->items, n->len, sizeof(n->items[0]), compare);
}

static int read_rows(struct catalog *c, struct names *n, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	int r = db_prepare(
		c, &s, "SELECT digest FROM image UNION SELECT blob FROM image_blob", NULL, 0, e);

	while (r >= 0 && (r = db_step(c, s, e)) > 0) {
		const char *digest = (const char *)sqlite3_column_text(s, 0);
		if (digest && text_starts_with(digest, DIGEST_PREFIX) &&
			is_digest_name(digest + strlen(DIGEST_PREFIX)) &&
			names_add(n, digest + strlen(DIGEST_PREFIX), e) < 0)
			return err_code(e);
	}
	names_sort(n);
	return r < 0 ? r : 0;
}

int image_lock(const struct home *h, struct err *e)
{
	cleanup_fd int dir = home_images_dir(h, e);

	if (dir < 0)
		return dir;
	int lock = lock_open(dir, IMAGES_LOCK, true);
	return lock < 0 ? err_errno(e, -lock, "cannot lock %s/images", h->path) : lock;
}

/* ---- claims ---- */

/* Its whole lines; a line that was cut off by a crash names nothing. */
static int take_claim(struct names *n, int fd, const char *name, struct err *e)
{
	const size_t line = strlen(DIGEST_PREFIX) + HEX + 1;
	cleanup_buf struct buf b = {0};

	buf_init(&b, IMAGES_CLAIM_BYTES_MAX);
	int r = lseek(fd, 0, SEEK_SET) < 0 ? -errno : fd_read_all(fd, &b);
	if (r < 0)
		return err_errno(e, -r, "cannot read images/" IMAGES_CLAIMS "/%s", name);
	const char *text = (const char *)b.data, *end = text + b.len;
	for (; end - text >= (ptrdiff_t)line; text += line)
		if (memcmp(text, DIGEST_PREFIX, strlen(DIGEST_PREFIX)) == 0 &&
			text[line - 1] == '\n' && is_hex(text + strlen(DIGEST_PREFIX), HEX) &&
			names_add(n, text + strlen(DIGEST_PREFIX), e) < 0)
			return err_code(e);
	return 0;
}

static bool may_continue(const struct sweep *w, const char *name, const struct stat *st)
{
	int64_t age_s = clock_wall_ns() / 1000000000 - (int64_t)st->st_mtim.tv_sec;

	return name[0] != 'x' && !w->s->all && age_s < IMAGES_RESUME_S;
}

static void failed(struct sweep *w, int errnum, const char *name)
{
	struct err second;
	int r = err_errno(
		w->failed ? &second : &w->first, errnum, "cannot remove images/%.80s", name);

	w->failed = w->failed ? w->failed : r;
}

static void removed(struct sweep *w, const struct stat *st)
{
	w->s->removed++;
	w->s->freed_bytes += (uint64_t)st->st_blocks * 512;
}

static int sweep_claim(struct sweep *w, int dir, const char *name, struct err *e)
{
	struct stat st;
	cleanup_fd int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT || errno == ELOOP
			       ? 0
			       : err_errno(
					 e, errno, "cannot open images/" IMAGES_CLAIMS "/%s", name);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	int held = lock_test(dir, name);
	if (held < 0)
		return err_errno(e, -held, "cannot look at images/" IMAGES_CLAIMS "/%s", name);
	if (held > 0)
		return take_claim(&w->claims, fd, name, e);
	/* One that cannot be read is of no use to the next pull. */
	if (may_continue(w, name, &st) && take_claim(&w->claims, fd, name, e) >= 0)
		return 0;
	if (lock_take(fd, false) < 0)
		return take_claim(&w->claims, fd, name, e);
	if (unlinkat(dir, name, 0) < 0)
		failed(w, errno, name);
	else
		removed(w, &st);
	return 0;
}

/* ---- folders ---- */

/* Calls fn for each name of a folder; a missing folder has none. */
static int each(struct sweep *w, int parent, const char *name,
	int (*fn)(struct sweep *w, int dir, const char *name, struct err *e), struct err *e)
{
	int r = 0, fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (!d) {
		int saved = errno;
		(void)fd_close(fd);
		return saved == ENOENT ? 0 : err_errno(e, saved, "cannot look at images/%s", name);
	}
	while (r >= 0 && (de = readdir(d)))
		r = fn(w, dirfd(d), de->d_name, e);
	(void)closedir(d);
	return r;
}

/* A claim's name, which is also that of its worker's folder. */
static bool is_worker_name(const char *name)
{
	return is_digest_name(name) ||
	       (name[0] == 'x' && strlen(name) == 17 && is_hex(name + 1, 16));
}

static int each_claim(struct sweep *w, int dir, const char *name, struct err *e)
{
	return is_worker_name(name) ? sweep_claim(w, dir, name, e) : 0;
}

static void remove_file(struct sweep *w, int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return;
	if (unlinkat(dir, name, 0) == 0)
		removed(w, &st);
	else if (errno != ENOENT)
		failed(w, errno, name);
}

/* Cuts the digest out. */
static bool begins_with_digest(const char *name, char ret[static HEX + 1])
{
	if (strnlen(name, HEX) < HEX || !is_hex(name, HEX))
		return false;
	memcpy(ret, name, HEX);
	ret[HEX] = '\0';
	return true;
}

/* What file_write_atomic() leaves when it is killed: NAME.16HEX.tmp */
static bool is_temporary(const char *rest)
{
	return strlen(rest) == 21 && rest[0] == '.' && is_hex(rest + 1, 16) &&
	       strcmp(rest + 17, ".tmp") == 0;
}

static int each_image(struct sweep *w, int dir, const char *name, struct err *e)
{
	char hex[HEX + 1];

	(void)e;
	if (begins_with_digest(name, hex) && strcmp(name + HEX, IMAGES_SUFFIX) == 0 &&
		!names_have(&w->rows, hex) && !names_have(&w->claims, hex))
		remove_file(w, dir, name);
	return 0;
}

static int each_blob(struct sweep *w, int dir, const char *name, struct err *e)
{
	char hex[HEX + 1];

	(void)e;
	if (!begins_with_digest(name, hex) || names_have(&w->claims, hex))
		return 0;
	if (is_temporary(name + HEX) || (name[HEX] == '\0' && !names_have(&w->rows, hex)))
		remove_file(w, dir, name);
	return 0;
}

/* blobs/sha256, without following a link at "blobs". */
static int sweep_blobs(struct sweep *w, int dir, struct err *e)
{
	char above[] = IMAGES_BLOBS;

	*strchr(above, '/') = '\0';
	cleanup_fd int fd = openat(dir, above, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_errno(e, errno, "cannot look at images/%s", above);
	return each(w, fd, strchr(IMAGES_BLOBS, '/') + 1, each_blob, e);
}

static int each_partial(struct sweep *w, int dir, const char *name, struct err *e)
{
	char hex[HEX + 1];
	struct stat st;

	(void)e;
	if (begins_with_digest(name, hex) && !names_have(&w->claims, hex) &&
		fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
		lock_test(dir, name) == 0)
		remove_file(w, dir, name);
	return 0;
}

static void count_tree(struct sweep *w, int dir, const char *name, int depth)
{
	struct stat st;
	struct dirent *de;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	removed(w, &st);
	if (!S_ISDIR(st.st_mode) || depth == 0)
		return;
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		(void)fd_close(fd);
		return;
	}
	while ((de = readdir(d)))
		if (strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0)
			count_tree(w, dirfd(d), de->d_name, depth - 1);
	(void)closedir(d);
}

static int each_work(struct sweep *w, int dir, const char *name, struct err *e)
{
	(void)e;
	if (!is_worker_name(name))
		return 0;
	cleanup_fd int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return 0;
	count_tree(w, dir, name, TREE_DEPTH_MAX);
	int r = file_remove_tree(dir, name);
	if (r < 0)
		failed(w, -r, name);
	return 0;
}

int image_sweep(struct catalog *c, const struct home *h, struct image_sweep *s, struct err *e)
{
	cleanup_fd int dir = home_images_dir(h, e);
	struct sweep w = {.s = s};
	int r = dir;

	s->freed_bytes = s->removed = 0;
	if (r >= 0 && (r = read_rows(c, &w.rows, e)) >= 0 &&
		(r = each(&w, dir, IMAGES_CLAIMS, each_claim, e)) >= 0) {
		names_sort(&w.claims);
		if ((r = each(&w, dir, ".", each_image, e)) >= 0 &&
			(r = sweep_blobs(&w, dir, e)) >= 0 &&
			(r = each(&w, dir, IMAGES_PARTIAL, each_partial, e)) >= 0)
			r = each(&w, dir, IMAGES_WORK, each_work, e);
	}
	free(w.rows.items);
	free(w.claims.items);
	if (r >= 0 && w.failed) {
		*e = w.first;
		return w.failed;
	}
	return r < 0 ? r : 0;
}

/* ---- what is kept ---- */

int image_files_read(struct catalog *c, struct image_files **ret, struct err *e)
{
	struct image_files *f = calloc(1, sizeof(*f));
	int r = f ? read_rows(c, &f->rows, e) : db_out_of_memory(e);

	if (r < 0) {
		image_files_free(f);
		return r;
	}
	*ret = f;
	return 0;
}

bool image_files_has(const struct image_files *f, const char *path)
{
	size_t below = strlen(IMAGES_BLOBS "/");
	char hex[HEX + 1];

	if (text_starts_with(path, IMAGES_BLOBS "/"))
		return is_digest_name(path + below) && names_have(&f->rows, path + below);
	return begins_with_digest(path, hex) && strcmp(path + HEX, IMAGES_SUFFIX) == 0 &&
	       names_have(&f->rows, hex);
}

void image_files_free(struct image_files *f)
{
	if (f)
		free(f->rows.items);
	free(f);
}
