/* SPDX-License-Identifier: Apache-2.0 */
#include "mount-diff.h"

#include "tree-walk.h"

#include "../base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PERMISSIONS 0777
#define CHUNK (64u * 1024)

static int failed(const struct mount_diff *d, int errnum, const char *path, struct err *e)
{
	return err_errno(e, errnum, "cannot read %.150s/%.200s", d->host, path);
}

/* Valid until the next one. */
static struct change *add(
	struct mount_diff *d, const char *path, enum tree_type type, struct err *e)
{
	if (d->len == MOUNT_DIFF_MAX || d->bytes + strlen(path) > MOUNT_DIFF_BYTES_MAX) {
		(void)err_set(e, ERR_LIMIT, E2BIG,
			"%.200s has more than %d changed files, or very long names", d->guest,
			MOUNT_DIFF_MAX);
		return NULL;
	}
	if (d->len == d->cap) {
		size_t cap = d->cap ? 2 * d->cap : 64;
		struct change *list = realloc(d->list, cap * sizeof(*list));
		if (!list) {
			(void)failed(d, ENOMEM, path, e);
			return NULL;
		}
		d->list = list;
		d->cap = cap;
	}
	struct change *c = &d->list[d->len];
	*c = (struct change){.path = strdup(path), .type = type};
	if (!c->path) {
		(void)failed(d, ENOMEM, path, e);
		return NULL;
	}
	d->bytes += strlen(path);
	d->len++;
	return c;
}

/* What the host has at path. 1, or 0: nothing; *ret_dirfd is its folder. */
static int look_up(const struct mount_diff *d, const char *path, struct stat *ret, int *ret_dirfd,
	struct err *e)
{
	cleanup_fd int dirfd = tree_walk(d->root, path, tree_parent_len(path));

	if (dirfd == -ENOENT || dirfd == -ENOTDIR || dirfd == -ELOOP) {
		dirfd = -1;
		return 0;
	}
	if (dirfd < 0) {
		int errnum = -dirfd;
		dirfd = -1;
		return failed(d, errnum, path, e);
	}
	if (fstatat(dirfd, tree_last_name(path), ret, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : failed(d, errno, path, e);
	*ret_dirfd = fd_take(&dirfd);
	return 1;
}

static enum tree_type type_of(const struct stat *st)
{
	return S_ISDIR(st->st_mode) ? TREE_DIR : S_ISLNK(st->st_mode) ? TREE_SYMLINK : TREE_FILE;
}

struct host_entry mount_host_entry(const struct stat *st)
{
	return (struct host_entry){.there = true,
		.is_dir = S_ISDIR(st->st_mode),
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime = st->st_mtim};
}

static bool same_mode(const struct stat *st, const struct tree_entry *m)
{
	return ((st->st_mode ^ m->mode) & PERMISSIONS) == 0;
}

static int open_file(int dirfd, const char *path)
{
	return openat(dirfd, tree_last_name(path),
		O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* ---- an entry beside what the host has ---- */

/* The content is compared as it comes. */
static int compare_file(struct mount_diff *d, const struct tree_entry *m, const struct stat *st,
	int dirfd, struct change *c, struct err *e)
{
	c->kind = CHANGE_CHANGED;
	if (!S_ISREG(st->st_mode) || !same_mode(st, m) || (uint64_t)st->st_size != m->size)
		return 0;
	d->file = open_file(dirfd, m->path);
	return d->file < 0 ? failed(d, errno, m->path, e) : 0;
}

static int compare_link(const struct mount_diff *d, const struct tree_entry *m,
	const struct stat *st, int dirfd, struct change *c, struct err *e)
{
	char target[TREE_PATH_MAX];

	c->kind = CHANGE_CHANGED;
	if (!S_ISLNK(st->st_mode))
		return 0;
	ssize_t n = readlinkat(dirfd, tree_last_name(m->path), target, sizeof(target));
	if (n < 0)
		return failed(d, errno, m->path, e);
	if ((size_t)n == strlen(m->target) && memcmp(target, m->target, (size_t)n) == 0)
		c->kind = CHANGE_NONE;
	return 0;
}

static int same_content(int a, int b)
{
	static unsigned char one[CHUNK], other[CHUNK];

	for (;;) {
		ssize_t n = fd_read_full(a, one, sizeof(one));
		ssize_t k = n < 0 ? n : fd_read_full(b, other, sizeof(other));
		if (k < 0)
			return (int)k;
		if (n != k || memcmp(one, other, (size_t)n) != 0)
			return 0;
		if (n == 0)
			return 1;
	}
}

static int compare_entry(struct mount_diff *d, const struct tree_entry *m, const struct stat *st,
	int dirfd, struct change *c, struct err *e)
{
	switch (m->type) {
	case TREE_FILE:
		return compare_file(d, m, st, dirfd, c, e);
	case TREE_DIR:
		c->kind = S_ISDIR(st->st_mode) && same_mode(st, m) ? CHANGE_NONE : CHANGE_CHANGED;
		return 0;
	case TREE_SYMLINK:
		return compare_link(d, m, st, dirfd, c, e);
	case TREE_HARDLINK: /* when all that it could lead to is known */
		c->kind = CHANGE_CHANGED;
		return 0;
	case TREE_WHITEOUT:
		c->kind = CHANGE_REMOVED;
		c->type = type_of(st);
		return 0;
	case TREE_SKIPPED:
	case TREE_OPAQUE:
	case TREE_END:
	case TREE_TYPE_END:
		break;
	}
	return 0;
}

static int take_opaque(struct mount_diff *d, const struct tree_entry *m, struct err *e)
{
	struct change *c = d->len > 0 ? &d->list[d->len - 1] : NULL;

	if (!c || strcmp(c->path, m->path) != 0)
		c = add(d, m->path, TREE_OPAQUE, e);
	if (!c)
		return err_code(e);
	c->opaque = true;
	return 0;
}

static int take_entry(void *ctx, const struct tree_entry *m, struct err *e)
{
	struct mount_diff *d = ctx;
	struct stat st;
	int dirfd = -1;

	if (m->type == TREE_OPAQUE)
		return take_opaque(d, m, e);
	if (!*m->path && m->type != TREE_DIR)
		return err_set(e, ERR_PROTOCOL, 0, "the upper folder of %.200s is none", d->guest);
	if (m->type == TREE_SKIPPED)
		skipped_add(&d->skipped, m->path);
	struct change *c = add(d, m->path, m->type, e);
	if (!c)
		return err_code(e);
	c->size = m->size;
	if (m->type == TREE_HARDLINK) {
		d->bytes += strlen(m->target);
		if (!(c->target = strdup(m->target)))
			return failed(d, ENOMEM, m->path, e);
	}
	/* The mount's own folder stays as it is; what cannot be copied is no change. */
	if (!*m->path || m->type == TREE_SKIPPED)
		return 0;
	int r = look_up(d, m->path, &st, &dirfd, e);
	cleanup_fd int owned = dirfd;
	if (r > 0)
		c->host = mount_host_entry(&st);
	if (r > 0)
		return compare_entry(d, m, &st, owned, c, e);
	if (r == 0 && m->type != TREE_WHITEOUT)
		c->kind = CHANGE_ADDED;
	return r;
}

/* ---- content ---- */

static int take_data(void *ctx, const void *data, size_t len, struct err *e)
{
	static unsigned char here[CHUNK];
	struct mount_diff *d = ctx;
	const unsigned char *at = data;

	while (len > 0 && d->file >= 0) {
		size_t want = len < sizeof(here) ? len : sizeof(here);
		ssize_t n = fd_read_full(d->file, here, want);
		if (n < 0)
			return failed(d, (int)-n, d->list[d->len - 1].path, e);
		if ((size_t)n != want || memcmp(here, at, want) != 0)
			d->file = fd_close(d->file);
		at += want;
		len -= want;
	}
	return 0;
}

static int take_file_end(void *ctx, struct err *e)
{
	struct mount_diff *d = ctx;

	(void)e;
	if (d->file >= 0)
		d->list[d->len - 1].kind = CHANGE_NONE;
	d->file = fd_close(d->file);
	return 0;
}

static int take_end(void *ctx, struct err *e)
{
	struct mount_diff *d = ctx;

	(void)e;
	skipped_end(&d->skipped);
	return 0;
}

const struct tree_sink mount_compare_sink = {
	.entry = take_entry, .data = take_data, .file_end = take_file_end, .end = take_end};

/* ---- folders that hide the host's, or that go ---- */

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct change *)a)->path, ((const struct change *)b)->path);
}

static struct change *find(const struct mount_diff *d, size_t len, const char *path)
{
	const struct change key = {.path = (char *)path};

	return len > 0 ? bsearch(&key, d->list, len, sizeof(key), by_path) : NULL;
}

struct change *mount_diff_find(const struct mount_diff *d, const char *path)
{
	return find(d, d->len, path);
}

/* It, or a folder that it is in, hides what the host has there. len: of the sorted part. */
static bool is_hidden(const struct mount_diff *d, size_t len, const char *path)
{
	char up[TREE_PATH_MAX];

	(void)snprintf(up, sizeof(up), "%s", path);
	for (;;) {
		const struct change *c = find(d, len, up);
		if (c && c->opaque)
			return true;
		if (!*up)
			return false;
		up[tree_parent_len(up)] = '\0';
	}
}

static int add_hidden(struct mount_diff *d, size_t len, int dirfd, const char *folder,
	const char *name, struct err *e)
{
	char path[2 * TREE_PATH_MAX];
	struct stat st;

	int n = snprintf(path, sizeof(path), "%s%s%s", folder, *folder ? "/" : "", name);
	if (n >= TREE_PATH_MAX)
		return failed(d, ENAMETOOLONG, folder, e);
	if (find(d, len, path) || fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	struct change *c = add(d, path, type_of(&st), e);
	if (!c)
		return err_code(e);
	c->kind = CHANGE_REMOVED;
	c->host = mount_host_entry(&st);
	return 0;
}

/* What the host has in a folder that the upper one hides, or that goes. */
static int list_hidden(struct mount_diff *d, size_t len, const char *folder, struct err *e)
{
	cleanup_fd int at = tree_walk(d->root, folder, strlen(folder));
	struct dirent *de;
	int r = 0;

	if (at < 0) { /* no folder there: it is a change itself */
		at = -1;
		return 0;
	}
	int fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		/* What cannot be listed is not removed either: its folder is not empty. */
		r = errno == EACCES ? 0 : failed(d, errno, folder, e);
		(void)fd_close(fd);
		return r;
	}
	while (r == 0 && (de = readdir(dir)))
		if (strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0)
			r = add_hidden(d, len, at, folder, de->d_name, e);
	(void)closedir(dir);
	return r;
}

/* Entries that came apart are one: an OPAQUE beside its folder, a name that came twice. */
static void merge_same(struct mount_diff *d)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->len; i++) {
		struct change *last = kept > 0 ? &d->list[kept - 1] : NULL;
		if (last && strcmp(last->path, d->list[i].path) == 0) {
			bool opaque = last->opaque || d->list[i].opaque;
			struct change *out = last->type == TREE_OPAQUE ? last : &d->list[i];
			free(out->path);
			free(out->target);
			if (out == last)
				*last = d->list[i];
			last->opaque = opaque;
			continue;
		}
		d->list[kept++] = d->list[i];
	}
	d->len = kept;
}

/* It is as on the host when what it leads to is, and the host's two are the same file or alike. */
static int compare_hardlink(const struct mount_diff *d, struct change *c, struct err *e)
{
	const struct change *first = find(d, d->len, c->target);
	struct stat one, other;
	int onefd = -1, otherfd = -1;

	if (!first || first->kind != CHANGE_NONE)
		return 0;
	int r = look_up(d, c->path, &one, &onefd, e);
	cleanup_fd int owned = onefd;
	if (r > 0)
		r = look_up(d, c->target, &other, &otherfd, e);
	cleanup_fd int other_owned = otherfd;
	if (r <= 0 || !S_ISREG(one.st_mode))
		return r < 0 ? r : 0;
	bool same = one.st_dev == other.st_dev && one.st_ino == other.st_ino;
	if (!same && (one.st_size != other.st_size || one.st_mode != other.st_mode))
		return 0;
	cleanup_fd int a = open_file(owned, c->path);
	cleanup_fd int b = open_file(other_owned, c->target);
	r = same ? 1 : a < 0 || b < 0 ? -errno : same_content(a, b);
	if (r < 0)
		return failed(d, -r, c->path, e);
	if (r > 0)
		c->kind = CHANGE_NONE;
	return 0;
}

/* The host's folder at this place, if it has one, is to go. */
static bool goes(const struct change *c)
{
	return c->kind == CHANGE_REMOVED ? c->type == TREE_DIR
					 : c->kind == CHANGE_CHANGED && c->type != TREE_DIR;
}

static bool hides(const struct mount_diff *d, size_t len, const struct change *c)
{
	return (c->type == TREE_DIR || c->type == TREE_OPAQUE) && is_hidden(d, len, c->path);
}

int mount_compare_end(struct mount_diff *d, struct err *e)
{
	int r = 0;

	if (d->len == 0)
		return 0;
	qsort(d->list, d->len, sizeof(*d->list), by_path);
	merge_same(d);
	size_t len = d->len;
	for (size_t i = 0; r == 0 && i < len; i++)
		if (d->list[i].target && d->list[i].kind == CHANGE_CHANGED)
			r = compare_hardlink(d, &d->list[i], e);
	/* Also through what is added here: the content of folders that go. */
	for (size_t i = 0; r == 0 && i < d->len; i++) {
		const struct change *c = &d->list[i];
		if (!goes(c) && !(i < len && hides(d, len, c)))
			continue;
		/* The list may move. */
		char *path = strdup(d->list[i].path);
		r = path ? list_hidden(d, len, path, e) : failed(d, ENOMEM, "", e);
		free(path);
	}
	qsort(d->list, d->len, sizeof(*d->list), by_path);
	return r;
}
