/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing a sandbox races with others that open and lock its folder. So a lock is only ever taken
 * on a lock file that home_sandbox_dir(create) made, never on one made by the taker, and the taker
 * looks afterwards whether that file still has a name: who removes a folder holds its lock until
 * the lock file is gone, so nobody can end up holding the lock of a folder that is going away.
 */
#include "home.h"

#include "home-internal.h"

#include "../base/fd.h"
#include "../base/file.h"
#include "../base/hash.h"
#include "../base/strv.h"
#include "../base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const folders[] = {"audit", "images", "sandboxes", "templates"};

static int out_of_memory(struct err *e)
{
	return err_errno(e, ENOMEM, "cannot open the state directory");
}

/* $KOSA8_HOME, else ~/.kosa8, made absolute. */
static int home_path(char **ret, struct err *e)
{
	const char *given = getenv("KOSA8_HOME"), *user = getenv("HOME");
	cleanup_str char *cwd = NULL;
	int n;

	if (given && given[0] == '/') {
		n = asprintf(ret, "%s", given);
	} else if (given && given[0] != '\0') {
		if (!(cwd = getcwd(NULL, 0)))
			return err_errno(e, errno, "cannot tell the current folder");
		n = asprintf(ret, "%s/%s", cwd, given);
	} else {
		struct passwd *pw = user && user[0] == '/' ? NULL : getpwuid(getuid());
		if (pw)
			user = pw->pw_dir;
		if (!user || user[0] != '/') {
			(void)err_set(e, ERR_NOT_FOUND, 0, "no state directory: HOME is not set");
			return err_hint(e, "set KOSA8_HOME to a folder");
		}
		n = asprintf(ret, "%s/.kosa8", user);
	}
	return n < 0 ? out_of_memory(e) : 0;
}

static int explain(struct err *e, int errnum, const char *path)
{
	switch (errnum) {
	case ENOTDIR:
	case EEXIST:
		(void)err_set(e, ERR_INVALID, errnum,
			"cannot use the state directory: %s is not a folder", path);
		return err_hint(e, "set KOSA8_HOME to another folder");
	case EROFS:
		(void)err_set(e, ERR_DENIED, errnum,
			"cannot use the state directory: %s is on a read-only file system", path);
		return err_hint(e, "set KOSA8_HOME to a folder on a writable file system");
	case ENOSPC:
	case EDQUOT:
		(void)err_set(e, ERR_NO_SPACE, errnum,
			"cannot make %s: no space left on its file system", path);
		return err_hint(e, "free space there, or set KOSA8_HOME to another file system");
	case ENAMETOOLONG:
		(void)err_set(e, ERR_LIMIT, errnum,
			"the path of the state directory is too long: %.200s", path);
		return err_hint(e, "set KOSA8_HOME to a shorter path");
	default:
		(void)err_errno(e, errnum, "cannot use the state directory %s", path);
		return err_hint(e, "check the folder's owner and mode, or set KOSA8_HOME");
	}
}

static int make_one(const char *path, struct err *e)
{
	struct stat st;

	if (stat(path, &st) == 0)
		return S_ISDIR(st.st_mode) ? 0 : explain(e, ENOTDIR, path);
	if (errno != ENOENT)
		return explain(e, errno, path);
	return mkdir(path, 0700) < 0 && errno != EEXIST ? explain(e, errno, path) : 0;
}

/* Makes the folder and those above it that are missing. Errors name the one that failed. */
static int make_path(char *path, struct err *e)
{
	for (char *p = path + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		int r = make_one(path, e);
		*p = '/';
		if (r < 0)
			return r;
	}
	return make_one(path, e);
}

/* Nobody else may own it or write to it; and we can. */
static int check_owner(int fd, const char *path, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return explain(e, errno, path);
	if (st.st_uid != geteuid()) {
		(void)err_set(e, ERR_DENIED, 0,
			"the state directory %s belongs to another user (uid %u)", path,
			(unsigned)st.st_uid);
		return err_hint(
			e, "run kosa8 as that user, or set KOSA8_HOME to a folder of your own");
	}
	if (st.st_mode & (S_IWGRP | S_IWOTH)) {
		(void)err_set(
			e, ERR_DENIED, 0, "the state directory %s can be written by others", path);
		return err_hint(e, "chmod go-w %.150s", path);
	}
	if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0)
		return explain(e, errno, path);
	return 0;
}

static int make_folders(int fd, const char *path, struct err *e)
{
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		cleanup_fd int folder = dir_open(fd, folders[i], true, 0700);
		if (folder >= 0)
			continue;
		cleanup_str char *below = NULL;
		if (asprintf(&below, "%s/%s", path, folders[i]) < 0) {
			below = NULL;
			return out_of_memory(e);
		}
		return explain(e, -folder, below);
	}
	return 0;
}

int home_open(bool create, struct home *ret, struct err *e)
{
	cleanup_str char *path = NULL;
	int r = home_path(&path, e);

	if (r < 0)
		return r;
	/* SQLite takes no path over 512 bytes, and appends to ours. */
	if (strlen(path) > HOME_PATH_MAX)
		return explain(e, ENAMETOOLONG, path);
	if (create && (r = make_path(path, e)) < 0)
		return r;
	cleanup_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		(void)err_set(e, ERR_NOT_FOUND, ENOENT, "there is no state directory %s", path);
		return err_hint(e, "kosa8 sandbox create NAME makes it");
	}
	if (fd < 0)
		return explain(e, errno, path);
	if ((r = check_owner(fd, path, e)) < 0 || (r = make_folders(fd, path, e)) < 0)
		return r;
	ret->dirfd = fd_take(&fd);
	ret->path = path;
	path = NULL;
	return 0;
}

void home_release(struct home *h)
{
	/* A zeroed struct was never opened: descriptor 0 is not its. */
	if (h->path)
		(void)fd_close(h->dirfd);
	free(h->path);
	*h = (struct home){.dirfd = -1};
}

static int folder(const struct home *h, const char *name, struct err *e)
{
	int fd = dir_open(h->dirfd, name, true, 0700);

	return fd < 0 ? err_errno(e, -fd, "cannot open %s/%s", h->path, name) : fd;
}

int home_images_dir(const struct home *h, struct err *e)
{
	return folder(h, "images", e);
}

int home_templates_dir(const struct home *h, struct err *e)
{
	return folder(h, "templates", e);
}

bool home_is_id(const char *id)
{
	unsigned char raw[8];

	return strnlen(id, 17) == 16 && text_unhex(id, raw, sizeof(raw));
}

static int sandbox_error(struct err *e, int errnum, const char *id)
{
	return err_errno(e, errnum, "cannot open the sandbox's folder sandboxes/%.32s", id);
}

int home_sandbox_dir_at(int home_dirfd, const char *id, bool create, struct err *e)
{
	cleanup_fd int all = -1, dir = -1, lock = -1;

	if (!home_is_id(id))
		return err_set(e, ERR_INTERNAL, EINVAL, "%.40s is not the id of a sandbox", id);
	all = dir_open(home_dirfd, "sandboxes", false, 0700);
	if (all < 0)
		return sandbox_error(e, -all, id);
	dir = dir_open(all, id, create, 0700);
	if (dir < 0)
		return sandbox_error(e, -dir, id);
	if (!create)
		return fd_take(&dir);
	for (size_t i = 0; i < 2; i++) {
		cleanup_fd int below = dir_open(dir, i ? "checkpoints" : "layers", true, 0700);
		if (below < 0)
			return sandbox_error(e, -below, id);
	}
	lock = openat(dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (lock < 0)
		return sandbox_error(e, errno, id);
	return fd_take(&dir);
}

int home_sandbox_dir(const struct home *h, const char *id, bool create, struct err *e)
{
	return home_sandbox_dir_at(h->dirfd, id, create, e);
}

int home_sandbox_lock(int sandbox_dirfd, int *ret_fd, struct err *e)
{
	cleanup_fd int fd = openat(sandbox_dirfd, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "the sandbox has been removed");
	if (fd < 0)
		return err_errno(e, errno, "cannot open the sandbox's lock");
	int r = lock_take(fd, false);
	if (r == -EWOULDBLOCK)
		return err_set(e, ERR_WRONG_STATE, EBUSY,
			"the sandbox is busy: it runs, or another command is at work on it");
	if (r < 0)
		return err_errno(e, -r, "cannot lock the sandbox");
	if (fstat(fd, &st) < 0)
		return err_errno(e, errno, "cannot lock the sandbox");
	if (st.st_nlink == 0)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "the sandbox has been removed");
	*ret_fd = fd_take(&fd);
	return 0;
}

int home_sandbox_alive(int sandbox_dirfd)
{
	return lock_test(sandbox_dirfd, "lock");
}

int home_sandbox_move_aside(
	int sandboxes_dirfd, const char *id, char ret[static HOME_ASIDE_SIZE], struct err *e)
{
	char tag[9];

	random_hex(tag, 8);
	(void)snprintf(ret, HOME_ASIDE_SIZE, HOME_ASIDE_PREFIX "%.16s.%s", id, tag);
	if (renameat(sandboxes_dirfd, id, sandboxes_dirfd, ret) == 0)
		return 1;
	return errno == ENOENT ? 0 : err_errno(e, errno, "cannot remove sandboxes/%.16s", id);
}

int home_sandbox_remove(const struct home *h, const char *id, struct err *e)
{
	char aside[HOME_ASIDE_SIZE];
	cleanup_fd int all = dir_open(h->dirfd, "sandboxes", false, 0700);

	if (!home_is_id(id))
		return err_set(e, ERR_INTERNAL, EINVAL, "%.40s is not the id of a sandbox", id);
	if (all < 0)
		return sandbox_error(e, -all, id);
	int r = home_sandbox_move_aside(all, id, aside, e);
	if (r <= 0)
		return r;
	r = file_remove_tree(all, aside);
	return r < 0 ? err_errno(e, -r, "cannot remove sandboxes/%s", aside) : 0;
}
