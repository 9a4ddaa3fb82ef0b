/* SPDX-License-Identifier: Apache-2.0 */
#include "tree-receive.h"

#include "tree-walk.h"

#include "../base/fd.h"
#include "../base/file.h"
#include "../base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PERMISSIONS 0777
#define MADE_MODE 0700 /* of a folder while more may come for it */

#define PLACE_SIZE 340

/* A path below base as the user would name it. */
static void place(const struct tree_receive *t, const char *path, char ret[static PLACE_SIZE])
{
	const char *below = path + (t->beside ? strlen(t->name) : 0);
	size_t len = strlen(t->shown);
	bool slash = !t->beside && *path && (len == 0 || t->shown[len - 1] != '/');

	(void)snprintf(ret, PLACE_SIZE, "%.160s%s%.160s", t->shown, slash ? "/" : "", below);
}

static int failed(const struct tree_receive *t, int errnum, const char *path, struct err *e)
{
	char shown[PLACE_SIZE];

	place(t, path, shown);
	return err_errno(e, errnum, "cannot write %s", shown);
}

static int in_the_way(const struct tree_receive *t, const char *what, struct err *e)
{
	char shown[PLACE_SIZE];

	place(t, t->path, shown);
	return err_set(
		e, ERR_EXISTS, EEXIST, "cannot write %s: there is %s of that name", shown, what);
}

static int unexpected(const char *what, struct err *e)
{
	return err_set(e, ERR_PROTOCOL, 0, "the sandbox sent what it may not send: %s", what);
}

/* ---- folders ---- */

/* The folder of these len bytes becomes the one at work. */
static int go_to(struct tree_receive *t, const char *path, size_t len, struct err *e)
{
	if (t->dirfd >= 0 && strlen(t->dir) == len && memcmp(t->dir, path, len) == 0)
		return 0;
	int fd = tree_walk(t->base, path, len);
	if (fd < 0)
		return failed(t, -fd, t->path, e);
	(void)fd_close(t->dirfd);
	t->dirfd = fd;
	memmove(t->dir, path, len);
	t->dir[len] = '\0';
	return 0;
}

static void set_times(int64_t mtime_ns, struct timespec ret[2])
{
	ret[0] = (struct timespec){.tv_nsec = UTIME_OMIT};
	ret[1] = tree_timespec(mtime_ns);
}

static int finish_level(struct tree_receive *t, struct err *e)
{
	const struct receive_level *l = &t->levels[--t->depth];
	struct timespec times[2];
	int r;

	t->level_path[l->path_len] = '\0';
	r = go_to(t, t->level_path, l->path_len, e);
	if (r < 0)
		return r;
	cleanup_fd int fd = openat(t->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	set_times(l->mtime_ns, times);
	if (fd < 0 || fchmod(fd, l->mode) < 0 || futimens(fd, times) < 0)
		return failed(t, errno, t->level_path, e);
	return 0;
}

static bool is_below(const struct tree_receive *t, const struct receive_level *l)
{
	return memcmp(t->path, t->level_path, l->path_len) == 0 && t->path[l->path_len] == '/';
}

/* Folders for which nothing more comes get what they are to have. */
static int finish_levels(struct tree_receive *t, bool all, struct err *e)
{
	int r = 0;

	while (r == 0 && t->depth > 0 && (all || !is_below(t, &t->levels[t->depth - 1])))
		r = finish_level(t, e);
	return r;
}

static int push_level(struct tree_receive *t, const struct tree_entry *m, struct err *e)
{
	if (t->depth == t->cap) {
		size_t cap = t->cap ? 2 * t->cap : 16;
		struct receive_level *levels = realloc(t->levels, cap * sizeof(*levels));
		if (!levels)
			return failed(t, ENOMEM, t->path, e);
		t->levels = levels;
		t->cap = cap;
	}
	t->levels[t->depth++] = (struct receive_level){.path_len = strlen(t->path),
		.mode = m->mode & PERMISSIONS,
		.mtime_ns = m->mtime_ns};
	memcpy(t->level_path, t->path, strlen(t->path) + 1);
	return 0;
}

static int put_folder(struct tree_receive *t, const struct tree_entry *m, struct err *e)
{
	const char *name = tree_last_name(t->path);
	struct stat st;

	if (!*t->path) /* base itself: it stays as it is */
		return 0;
	bool made = mkdirat(t->dirfd, name, MADE_MODE) == 0;
	if (!made && errno != EEXIST)
		return failed(t, errno, t->path, e);
	if (!made && fstatat(t->dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(t, errno, t->path, e);
	if (!made && !S_ISDIR(st.st_mode)) {
		if (!t->replace)
			return in_the_way(t, S_ISLNK(st.st_mode) ? "a link" : "a file", e);
		if (unlinkat(t->dirfd, name, 0) < 0 || mkdirat(t->dirfd, name, MADE_MODE) < 0)
			return failed(t, errno, t->path, e);
	}
	t->made++;
	return push_level(t, m, e);
}

/* ---- files and links: under a temporary name first ---- */

static void new_temp(struct tree_receive *t)
{
	char hex[17];

	random_hex(hex, 16);
	(void)snprintf(t->temp, sizeof(t->temp), ".kosa8-%s", hex);
}

static void drop_temp(struct tree_receive *t)
{
	t->file = fd_close(t->file);
	if (t->temp[0])
		(void)unlinkat(t->dirfd, t->temp, 0);
	t->temp[0] = '\0';
}

/* A device, pipe or socket of the host is nothing that a copy replaces. */
static int refuse_special(const struct tree_receive *t, const char *name, struct err *e)
{
	char shown[PLACE_SIZE];
	struct stat st;

	if (!*name || fstatat(t->dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		S_ISREG(st.st_mode) || S_ISLNK(st.st_mode) || S_ISDIR(st.st_mode))
		return 0;
	place(t, t->path, shown);
	return err_set(e, ERR_EXISTS, EEXIST, "cannot write %s: it is no file or folder", shown);
}

static int publish(struct tree_receive *t, struct err *e)
{
	const char *name = tree_last_name(t->path);
	struct stat st;
	int r = refuse_special(t, name, e);

	if (r < 0)
		return r;
	if (fstatat(t->dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
		if (!t->make_way)
			return in_the_way(t, "a folder", e);
		r = t->make_way(t->make_way_ctx, t->path, e);
		if (r <= 0) {
			drop_temp(t);
			return r;
		}
	}
	if (renameat(t->dirfd, t->temp, t->dirfd, name) < 0)
		return failed(t, errno, t->path, e);
	/* Two names of one file: the rename did nothing. */
	(void)unlinkat(t->dirfd, t->temp, 0);
	t->temp[0] = '\0';
	t->made++;
	return 0;
}

static int open_temp(struct tree_receive *t, struct err *e)
{
	char shown[PLACE_SIZE];

	new_temp(t);
	t->file = openat(t->dirfd, t->temp,
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600);
	if (t->file >= 0)
		return 0;
	int errnum = errno;
	t->temp[0] = '\0';
	if (errnum != ENOENT && errnum != EOPNOTSUPP)
		return failed(t, errnum, t->path, e);
	place(t, t->path, shown);
	return err_set(
		e, ERR_INVALID, errnum, "cannot write %s: no files can be made there", shown);
}

static int receive_data(void *ctx, const void *data, size_t len, struct err *e)
{
	struct tree_receive *t = ctx;
	int r = t->file < 0 ? 0 : fd_write_sparse(t->file, data, len);

	return r < 0 ? failed(t, -r, t->path, e) : 0;
}

static int receive_file_end(void *ctx, struct err *e)
{
	struct tree_receive *t = ctx;
	struct timespec times[2];
	struct stat st;

	if (t->file < 0)
		return 0;
	set_times(t->mtime_ns, times);
	if (fd_end_sparse(t->file) < 0 || fchmod(t->file, t->mode) < 0 ||
		futimens(t->file, times) < 0 || fstat(t->file, &st) < 0)
		return failed(t, errno, t->path, e);
	int fd = t->file;
	t->file = -1;
	if (close(fd) < 0) /* some file systems say only here that it did not fit */
		return failed(t, errno, t->path, e);
	if (inode_table_add(&t->files, &st, NULL) < 0)
		return failed(t, ENOMEM, t->path, e);
	return publish(t, e);
}

static int put_symlink(struct tree_receive *t, const struct tree_entry *m, struct err *e)
{
	struct timespec times[2];

	new_temp(t);
	if (symlinkat(m->target, t->dirfd, t->temp) < 0) {
		t->temp[0] = '\0';
		return failed(t, errno, t->path, e);
	}
	set_times(m->mtime_ns, times);
	if (utimensat(t->dirfd, t->temp, times, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(t, errno, t->path, e);
	return publish(t, e);
}

/* Where there are no hard links, or no more of them. */
static int copy_made(struct tree_receive *t, int from, struct err *e)
{
	unsigned char chunk[65536];
	struct stat st;
	ssize_t n;
	int r = open_temp(t, e);

	if (r < 0)
		return r;
	if (fstat(from, &st) < 0)
		return failed(t, errno, t->path, e);
	while ((n = fd_read_full(from, chunk, sizeof(chunk))) > 0)
		if ((r = receive_data(t, chunk, (size_t)n, e)) < 0)
			return r;
	if (n < 0)
		return failed(t, (int)-n, t->path, e);
	t->mode = st.st_mode & PERMISSIONS;
	t->mtime_ns = tree_time_ns(st.st_mtim);
	return receive_file_end(t, e);
}

static int link_made(struct tree_receive *t, int dirfd, const char *name, struct err *e)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
		(!t->replace && !inode_table_find(&t->files, &st)))
		return unexpected("a hard link to what it did not send", e);
	new_temp(t);
	if (linkat(dirfd, name, t->dirfd, t->temp, 0) == 0)
		return publish(t, e);
	t->temp[0] = '\0';
	if (errno != EXDEV && errno != EPERM && errno != EMLINK && errno != EOPNOTSUPP)
		return failed(t, errno, t->path, e);
	cleanup_fd int from =
		openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return from < 0 ? failed(t, errno, t->path, e) : copy_made(t, from, e);
}

/* Where an entry's path is below base. */
static void join(const struct tree_receive *t, const char *path, char ret[RECEIVE_PATH_SIZE])
{
	(void)snprintf(
		ret, RECEIVE_PATH_SIZE, "%s%s%s", t->name, *t->name && *path ? "/" : "", path);
}

static int put_hardlink(struct tree_receive *t, const struct tree_entry *m, struct err *e)
{
	char target[RECEIVE_PATH_SIZE];

	join(t, m->target, target);
	cleanup_fd int dirfd = tree_walk(t->base, target, tree_parent_len(target));
	if (dirfd < 0)
		return unexpected("a hard link to what it did not send", e);
	return link_made(t, dirfd, tree_last_name(target), e);
}

/* ---- entries ---- */

static int check_root(struct tree_receive *t, const struct tree_entry *m, struct err *e)
{
	bool is_root = !*m->path;

	if (is_root == t->begun)
		return unexpected(is_root ? "a second root" : "no root", e);
	t->begun = true;
	if (is_root && m->type != TREE_DIR && (t->folder_only || !*t->name))
		return err_set(e, ERR_INVALID, ENOTDIR, "%.300s: what is copied there is no folder",
			t->shown);
	return 0;
}

static int put_entry(struct tree_receive *t, const struct tree_entry *m, struct err *e)
{
	switch (m->type) {
	case TREE_FILE:
		t->mode = m->mode & PERMISSIONS;
		t->mtime_ns = m->mtime_ns;
		return open_temp(t, e);
	case TREE_DIR:
		return put_folder(t, m, e);
	case TREE_SYMLINK:
		return put_symlink(t, m, e);
	case TREE_HARDLINK:
		return put_hardlink(t, m, e);
	case TREE_SKIPPED:
	case TREE_WHITEOUT:
	case TREE_OPAQUE:
	case TREE_END:
	case TREE_TYPE_END:
		break;
	}
	return unexpected("an entry of another kind of tree", e);
}

static int receive_entry(void *ctx, const struct tree_entry *m, struct err *e)
{
	struct tree_receive *t = ctx;
	int r;

	if (m->type == TREE_SKIPPED && !*m->path)
		return err_set(e, ERR_INVALID, 0, "what is copied is no file, folder or link");
	if (m->type == TREE_SKIPPED) {
		t->begun = true;
		skipped_add(&t->skipped, m->path);
		return 0;
	}
	if ((r = check_root(t, m, e)) < 0)
		return r;
	join(t, m->path, t->path);
	if ((r = finish_levels(t, false, e)) < 0 ||
		(r = go_to(t, t->path, tree_parent_len(t->path), e)) < 0 ||
		(r = refuse_special(t, tree_last_name(t->path), e)) < 0 ||
		(r = put_entry(t, m, e)) < 0)
		return r;
	return 0;
}

static int receive_end(void *ctx, struct err *e)
{
	struct tree_receive *t = ctx;
	int r = t->begun ? finish_levels(t, true, e) : unexpected("nothing", e);

	t->ended = r == 0;
	skipped_end(&t->skipped);
	return r;
}

const struct tree_sink tree_receive_sink = {.entry = receive_entry,
	.data = receive_data,
	.file_end = receive_file_end,
	.end = receive_end};

/* ---- after all ---- */

int tree_receive_failed(struct tree_receive *t, struct err *e)
{
	drop_temp(t);
	if (t->made == 0 || t->ended)
		return err_code(e);
	if (e->kind == ERR_NO_SPACE && t->is_new && file_remove_tree(t->base, t->name) == 0)
		return err_hint(e, "free some space there; what was copied was removed again");
	return err_hint(e, "%.150s has a part of it only: remove it, or copy again", t->shown);
}

void tree_receive_close(struct tree_receive *t)
{
	if (!t->shown)
		return;
	drop_temp(t);
	t->dirfd = fd_close(t->dirfd);
	t->base = fd_close(t->base);
	free(t->levels);
	inode_table_release(&t->files);
	t->shown = NULL;
}
