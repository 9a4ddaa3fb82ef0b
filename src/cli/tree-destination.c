/* SPDX-License-Identifier: Apache-2.0 */
/* Where on the host a tree is received, and the rules that hold this process to that place. */
#include "tree-receive.h"

#include "../base/fd.h"
#include "../base/landlock.h"
#include "../base/log.h"
#include "../base/strv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define CHANGE                                                                                  \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |                           \
		LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE |                \
		LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |                   \
		LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_FS_REFER | \
		LANDLOCK_FS_TRUNCATE)

void tree_receive_into(struct tree_receive *t, int fd, const char *shown)
{
	*t = (struct tree_receive){.shown = shown, .base = fd, .dirfd = -1, .file = -1};
}

static int no_folder(const char *path, int errnum, struct err *e)
{
	char plain[PATH_MAX];
	struct stat st;

	(void)snprintf(plain, sizeof(plain), "%s", path);
	for (size_t len = strlen(plain); len > 1 && plain[len - 1] == '/';)
		plain[--len] = '\0';
	if (errnum == ENOTDIR && stat(plain, &st) == 0 && !S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, ENOTDIR, "%.300s is a file, no folder", plain);
	if (errnum != ENOENT && errnum != ENOTDIR)
		return err_errno(e, errnum, "cannot open %.300s", path);
	(void)err_set(e, ERR_NOT_FOUND, errnum, "there is no folder %.300s", path);
	return err_hint(e, "make it first");
}

/* To a name whose parent is there. */
static int open_beside(struct tree_receive *t, const char *path, struct err *e)
{
	cleanup_str char *copy = strdup(path);
	struct stat st;

	if (!copy)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	size_t len = strlen(copy);
	while (len > 1 && copy[len - 1] == '/')
		copy[--len] = '\0';
	char *slash = strrchr(copy, '/');
	const char *name = slash ? slash + 1 : copy;
	if (!tree_path_is_safe(name) || !*name)
		return no_folder(path, ENOENT, e);
	t->folder_only = path[len] == '/';
	(void)snprintf(t->name, sizeof(t->name), "%s", name);
	if (slash)
		slash[slash == copy] = '\0';
	const char *parent = slash ? copy : ".";
	t->base = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (t->base < 0)
		return no_folder(parent, errno, e);
	t->beside = true;
	t->is_new = fstatat(t->base, t->name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
	if (t->folder_only && !t->is_new)
		return no_folder(path, ENOTDIR, e);
	return 0;
}

int tree_receive_open(struct tree_receive *t, const char *path, const char *source_name,
	bool contents, struct err *e)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	tree_receive_into(t, fd, path);
	if (fd < 0 && errno != ENOENT && errno != ENOTDIR)
		return err_errno(e, errno, "cannot open %.300s", path);
	if (fd < 0)
		return open_beside(t, path, e);
	if (contents)
		return 0;
	if (!*source_name || strchr(source_name, '/') || !tree_path_is_safe(source_name))
		return err_set(e, ERR_INVALID, 0, "\"%.100s\" names no file", source_name);
	(void)snprintf(t->name, sizeof(t->name), "%s", source_name);
	t->is_new = fstatat(fd, t->name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
	return 0;
}

int tree_receive_confine(const struct tree_receive *t, struct err *e)
{
	cleanup_landlock struct landlock l = LANDLOCK_NONE;
	char path[64];
	int r;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(e, errno, "cannot set no_new_privs");
	r = landlock_start(
		LANDLOCK_NET_BIND_TCP | LANDLOCK_NET_CONNECT_TCP, LANDLOCK_SCOPE_SOCKETS, &l, e);
	if (r == 0)
		log_info("this kernel has no Landlock");
	if (r <= 0)
		return r;
	if (t && t->base >= 0) {
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", t->base);
		if ((r = landlock_allow(&l, path, CHANGE, e)) < 0)
			return r;
	}
	return landlock_enter(&l, e);
}
