/* SPDX-License-Identifier: Apache-2.0 */
#include "tree-send.h"

#include "../base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONTENT_PIECE (64u * 1024)
#define NAMES_MAX (1u << 30) /* of one folder */

static const struct tree_send none = {.dirfd = -1, .file = -1};

/* What an error is about. */
static int failed(const struct tree_send *s, int errnum, struct err *e)
{
	const char *path = s->entry.path;

	return err_errno(e, errnum, "cannot read %.150s%s%.150s", s->root, *path ? "/" : "", path);
}

static int moved(const struct tree_send *s, struct err *e)
{
	return err_set(
		e, ERR_CANCELLED, 0, "a folder of %.150s was moved while it was copied", s->root);
}

/* ---- folders ---- */

static int read_names(int dirfd, struct buf *names)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;
	int r;

	if (!d) {
		r = -errno;
		(void)fd_close(fd);
		return r;
	}
	while ((errno = 0, de = readdir(d)))
		if (strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0)
			buf_put(names, de->d_name, strlen(de->d_name) + 1);
	r = buf_failed(names) ? -ENOMEM : -errno;
	(void)closedir(d);
	return r;
}

/* Takes fd: the folder is the innermost one now. */
static int enter(struct tree_send *s, int fd, struct err *e)
{
	cleanup_fd int owned = fd;
	struct stat st;
	int r;

	if (s->depth == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 16;
		struct tree_level *levels = realloc(s->levels, cap * sizeof(*levels));
		if (!levels)
			return failed(s, ENOMEM, e);
		s->levels = levels;
		s->cap = cap;
	}
	if (fstat(fd, &st) < 0)
		return failed(s, errno, e);
	struct tree_level *l = &s->levels[s->depth++];
	*l = (struct tree_level){
		.dev = st.st_dev, .ino = st.st_ino, .path_len = strlen(s->entry.path)};
	buf_init(&l->names, NAMES_MAX);
	r = read_names(fd, &l->names);
	if (r < 0)
		return failed(s, -r, e);
	(void)fd_close(s->dirfd);
	s->dirfd = fd_take(&owned);
	return 0;
}

static int leave(struct tree_send *s, struct err *e)
{
	struct stat st;

	buf_release(&s->levels[--s->depth].names);
	if (s->depth == 0)
		return 0;
	const struct tree_level *l = &s->levels[s->depth - 1];
	cleanup_fd int up = openat(s->dirfd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (up < 0 || fstat(up, &st) < 0)
		return failed(s, errno, e);
	if (st.st_dev != l->dev || st.st_ino != l->ino)
		return moved(s, e);
	(void)fd_close(s->dirfd);
	s->dirfd = fd_take(&up);
	return 0;
}

/* ---- entries ---- */

static void put_entry(
	struct tree_send *s, enum tree_type type, const struct stat *st, struct buf *b)
{
	struct tree_entry *m = &s->entry;

	m->type = type;
	m->mode = st->st_mode & 07777;
	m->uid = m->gid = 0; /* as docker's cp: what comes in is root's */
	m->mtime_ns = tree_time_ns(st->st_mtim);
	m->size = type == TREE_FILE ? (uint64_t)st->st_size : 0;
	tree_entry_encode(b, m);
	m->target[0] = '\0';
	s->entries++;
}

/* The name of the first one that was sent becomes the target. */
static bool is_link(struct tree_send *s, const struct stat *st)
{
	const struct inode_slot *slot = st->st_nlink > 1 ? inode_table_find(&s->links, st) : NULL;

	if (slot)
		(void)snprintf(s->entry.target, sizeof(s->entry.target), "%s", slot->path);
	return slot != NULL;
}

static int put_file(struct tree_send *s, int dirfd, const char *name, struct buf *b, struct err *e)
{
	struct stat st;

	cleanup_fd int fd =
		openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && s->depth > 0)
		return 0; /* gone meanwhile */
	if (fd < 0 || fstat(fd, &st) < 0)
		return failed(s, errno, e);
	if (!S_ISREG(st.st_mode))
		return failed(s, ESTALE, e);
	if (is_link(s, &st)) {
		put_entry(s, TREE_HARDLINK, &st, b);
		return 0;
	}
	if (st.st_nlink > 1 && inode_table_add(&s->links, &st, s->entry.path) < 0)
		return failed(s, ENOMEM, e);
	put_entry(s, TREE_FILE, &st, b);
	if (st.st_size > 0) {
		s->file = fd_take(&fd);
		s->left = (uint64_t)st.st_size;
		s->shrunk = false;
	}
	return 0;
}

static int put_symlink(struct tree_send *s, int dirfd, const char *name, const struct stat *st,
	struct buf *b, struct err *e)
{
	ssize_t n = readlinkat(dirfd, name, s->entry.target, sizeof(s->entry.target));

	if (n <= 0 || (size_t)n >= sizeof(s->entry.target)) {
		s->entry.target[0] = '\0';
		return failed(s, n < 0 ? errno : n == 0 ? EINVAL : ENAMETOOLONG, e);
	}
	s->entry.target[n] = '\0';
	put_entry(s, TREE_SYMLINK, st, b);
	return 0;
}

static int put_folder(struct tree_send *s, int dirfd, const char *name, const struct stat *st,
	struct buf *b, struct err *e)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return failed(s, errno, e);
	put_entry(s, TREE_DIR, st, b);
	return enter(s, fd, e);
}

static int put_one(struct tree_send *s, int dirfd, const char *name, struct buf *b, struct err *e)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT && s->depth > 0 ? 0 : failed(s, errno, e);
	if (S_ISDIR(st.st_mode))
		return put_folder(s, dirfd, name, &st, b, e);
	if (S_ISLNK(st.st_mode))
		return put_symlink(s, dirfd, name, &st, b, e);
	if (S_ISREG(st.st_mode))
		return put_file(s, dirfd, name, b, e);
	skipped_add(&s->skipped, s->entry.path);
	return 0;
}

/* The next name of the innermost folder, or the end of it. */
static int put_next(struct tree_send *s, struct buf *b, struct err *e)
{
	struct tree_level *l = &s->levels[s->depth - 1];
	const char *name = (const char *)l->names.data + l->at;
	size_t room = sizeof(s->entry.path) - l->path_len;

	s->entry.path[l->path_len] = '\0';
	if (l->at == l->names.len)
		return leave(s, e);
	l->at += strlen(name) + 1;
	int n = snprintf(s->entry.path + l->path_len, room, "%s%s", l->path_len ? "/" : "", name);
	if (n < 0 || (size_t)n >= room)
		return failed(s, ENAMETOOLONG, e);
	return put_one(s, s->dirfd, name, b, e);
}

static int put_root(struct tree_send *s, struct buf *b, struct err *e)
{
	struct stat st;

	s->begun = true;
	if (!s->is_dir)
		return put_one(s, AT_FDCWD, s->root, b, e);
	if (fstat(s->dirfd, &st) < 0)
		return failed(s, errno, e);
	put_entry(s, TREE_DIR, &st, b);
	int fd = fcntl(s->dirfd, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? failed(s, errno, e) : enter(s, fd, e);
}

static int put_content(struct tree_send *s, struct buf *b, struct err *e)
{
	size_t want = s->left < CONTENT_PIECE ? (size_t)s->left : CONTENT_PIECE;
	unsigned char *to = buf_extend(b, want);
	ssize_t n = 0;

	if (!to)
		return failed(s, ENOMEM, e);
	if (!s->shrunk)
		n = fd_read_full(s->file, to, want);
	if (n < 0)
		return failed(s, (int)-n, e);
	s->shrunk = (size_t)n < want;
	memset(to + n, 0, want - (size_t)n);
	s->left -= want;
	s->bytes += want;
	if (s->left == 0)
		s->file = fd_close(s->file);
	return 0;
}

static void put_end(struct tree_send *s, struct buf *b)
{
	s->entry = (struct tree_entry){.type = TREE_END};
	tree_entry_encode(b, &s->entry);
	s->ended = true;
	skipped_end(&s->skipped);
}

int tree_send_more(struct tree_send *s, struct buf *out, struct err *e)
{
	int r = 0;

	if (s->ended)
		return 0;
	if (s->file >= 0)
		r = put_content(s, out, e);
	else if (!s->begun)
		r = put_root(s, out, e);
	else if (s->depth > 0)
		r = put_next(s, out, e);
	else
		put_end(s, out);
	if (r >= 0 && buf_failed(out))
		r = failed(s, ENOMEM, e);
	return r < 0 ? r : !s->ended;
}

int tree_send_open(struct tree_send *s, const char *path, struct err *e)
{
	struct stat st;

	*s = none;
	s->root = path;
	if (lstat(path, &st) < 0) {
		if (errno == ENOENT || errno == ENOTDIR)
			return err_set(e, ERR_NOT_FOUND, errno, "there is no %.300s", path);
		return err_errno(e, errno, "cannot read %.300s", path);
	}
	s->is_dir = S_ISDIR(st.st_mode);
	if (!s->is_dir && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return err_set(e, ERR_INVALID, 0, "%.300s is no file, folder or link", path);
	if (!s->is_dir)
		return 0;
	s->dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return s->dirfd < 0 ? err_errno(e, errno, "cannot read %.300s", path) : 0;
}

void tree_send_close(struct tree_send *s)
{
	while (s->depth > 0)
		buf_release(&s->levels[--s->depth].names);
	free(s->levels);
	inode_table_release(&s->links);
	if (s->root) {
		s->dirfd = fd_close(s->dirfd);
		s->file = fd_close(s->file);
	}
	*s = none;
}
