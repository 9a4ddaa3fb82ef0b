/* SPDX-License-Identifier: Apache-2.0 */
#include "copy-path.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINKS_MAX 40
/* The kernel gives up when names change under a "..", and asks to try again. */
#define TRIES_MAX 32

static int open_folder(const struct copy_root *root, const char *path)
{
	struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_NOCTTY | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	int fd = -1;

	for (int i = 0; i < TRIES_MAX; i++) {
		fd = (int)syscall(SYS_openat2, root->fd, *path ? path : ".", &how, sizeof(how));
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			break;
	}
	return fd < 0 ? -errno : fd;
}

static int no_folder(const struct copy_root *root, const char *path, int r, struct err *e)
{
	if (r == -ENOENT)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "no such folder in the %s: %.200s",
			root->what, *path ? path : "/");
	return err_errno(e, -r, "%.200s in the %s", *path ? path : "/", root->what);
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Cuts path into its folder, which stays there ("/" for the root), and its last name. False when it
 * has none: then all of it names a folder. */
static bool split(char path[static PATH_MAX], bool *ret_slash, char name[static PATH_MAX])
{
	size_t len = strlen(path);

	*ret_slash = len > 0 && path[len - 1] == '/';
	while (len > 0 && path[len - 1] == '/')
		path[--len] = '\0';
	char *slash = strrchr(path, '/');
	const char *last = slash ? slash + 1 : path;
	if (*last == '\0' || is_dots(last))
		return false;
	memcpy(name, last, strlen(last) + 1);
	if (slash)
		slash[1] = '\0';
	else
		path[0] = '\0';
	return true;
}

static int take_folder(
	const struct copy_root *root, const char *path, struct copy_place_at *ret, struct err *e)
{
	int fd = open_folder(root, path);

	if (fd < 0)
		return no_folder(root, path, fd, e);
	*ret = (struct copy_place_at){.fd = fd, .folder_only = true};
	return 0;
}

static int take_name(const struct copy_root *root, const char *folder, const char *name,
	struct copy_place_at *ret, struct err *e)
{
	struct copy_place_at at = {.fd = -1};

	if (strlen(name) >= sizeof(at.name))
		return err_errno(e, ENAMETOOLONG, "%.100s... in the %s", name, root->what);
	at.fd = open_folder(root, folder);
	if (at.fd < 0)
		return no_folder(root, folder, at.fd, e);
	memcpy(at.name, name, strlen(name) + 1);
	*ret = at;
	return 0;
}

static int set_path(char path[static PATH_MAX], const char *from, struct err *e)
{
	if (strlen(from) >= PATH_MAX)
		return err_errno(e, ENAMETOOLONG, "the path");
	memcpy(path, from, strlen(from) + 1);
	return 0;
}

int copy_find(
	const struct copy_root *root, const char *path, struct copy_place_at *ret, struct err *e)
{
	char folder[PATH_MAX], name[PATH_MAX];
	bool slash;
	int r = set_path(folder, path, e);

	if (r < 0)
		return r;
	/* A slash at the end asks for the folder that a link leads to. */
	if (!split(folder, &slash, name) || slash)
		return take_folder(root, path, ret, e);
	return take_name(root, folder, name, ret, e);
}

/* One step of copy_find_target(). 1: path has become where a link leads. */
static int step_to_target(const struct copy_root *root, char path[static PATH_MAX], bool *slash,
	struct copy_place_at *ret, struct err *e)
{
	char name[PATH_MAX], link[PATH_MAX];
	struct stat st;
	bool ends_in_slash;
	int r, fd = open_folder(root, path);

	if (fd >= 0) {
		*ret = (struct copy_place_at){.fd = fd};
		return 0;
	}
	if (!split(path, &ends_in_slash, name))
		return no_folder(root, path, fd, e);
	*slash |= ends_in_slash;
	r = take_name(root, path, name, ret, e);
	if (r < 0)
		return r;
	ret->folder_only = *slash;
	if (fstatat(ret->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISLNK(st.st_mode))
		return 0;
	ssize_t n = readlinkat(ret->fd, name, link, sizeof(link) - 1);
	ret->fd = fd_close(ret->fd);
	if (n < 0)
		return err_errno(e, errno, "%.200s in the %s", name, root->what);
	link[n] = '\0';
	size_t keep = *link == '/' ? 0 : strlen(path);
	if (keep + (size_t)n >= PATH_MAX)
		return err_errno(e, ENAMETOOLONG, "%.200s in the %s", name, root->what);
	memcpy(path + keep, link, (size_t)n + 1);
	return 1;
}

int copy_find_target(
	const struct copy_root *root, const char *path, struct copy_place_at *ret, struct err *e)
{
	struct copy_place_at at = {.fd = -1};
	char now[PATH_MAX];
	bool slash = false;
	int r = set_path(now, path, e);

	for (int i = 0; r == 0 && i < LINKS_MAX; i++) {
		r = step_to_target(root, now, &slash, &at, e);
		if (r == 0) {
			*ret = at;
			return 0;
		}
		if (r > 0)
			r = 0;
	}
	return r < 0 ? r : err_errno(e, ELOOP, "%.200s in the %s", path, root->what);
}
