/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream's paths are relative to a base folder. The folder of each entry is opened below it
 * without following any link (openat2(2), RESOLVE_NO_SYMLINKS), and what is there under the entry's
 * last name is replaced, not written through. So neither the stream nor a link in the guest can
 * lead out of the destination.
 *
 * A file is written without a name (O_TMPFILE) and gets its name when it is complete: a copy that
 * is killed leaves nothing half. Where there is no O_TMPFILE it has a temporary name.
 *
 * Adding an entry changes its folder's time: that of the folder at work is set back when another
 * one's turn comes.
 */
#include "copy-in.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int no_writing(int errnum, const char *path, struct err *e)
{
	if (errnum == ENOSPC || errnum == EDQUOT)
		return err_set(e, ERR_NO_SPACE, errnum,
			"cannot write %.200s: the sandbox's disk is full", path);
	return err_errno(e, errnum, "write %.200s", path);
}

static int is_a_folder(const char *path, struct err *e)
{
	return err_set(e, ERR_EXISTS, EISDIR,
		"%.200s is a folder there, which is not replaced by something else", path);
}

/* What a file is called until it is complete. */
static int temporary_name(char ret[static COPY_TEMP_SIZE])
{
	uint64_t tag;

	if (getrandom(&tag, sizeof(tag), 0) != (ssize_t)sizeof(tag))
		return -EIO;
	(void)snprintf(ret, COPY_TEMP_SIZE, ".kosa8-%016llx", (unsigned long long)tag);
	return 0;
}

static void set_time(int fd, struct timespec mtime)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, mtime};

	(void)futimens(fd, times);
}

/* Folders */

void copy_in_leave_folder(struct copy_in *in)
{
	if (in->folder < 0)
		return;
	if (in->folder_in_tree)
		set_time(in->folder, in->folder_time);
	in->folder = fd_close(in->folder);
}

static int enter(struct copy_in *in, int fd, const char *path, size_t len, struct timespec mtime)
{
	copy_in_leave_folder(in);
	in->folder = fd;
	in->folder_in_tree = len > 0;
	in->folder_time = mtime;
	memcpy(in->folder_path, path, len);
	in->folder_path[len] = '\0';
	return 0;
}

/* Makes the folder of in->path the one at work; what comes after it is the entry's name. */
static int enter_folder(struct copy_in *in, const char **ret_name, struct err *e)
{
	struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	const char *slash = strrchr(in->path, '/');
	size_t len = slash ? (size_t)(slash - in->path) : 0;
	char path[COPY_PATH_SIZE];
	struct stat st;

	*ret_name = slash ? slash + 1 : in->path;
	if (in->folder >= 0 && strlen(in->folder_path) == len &&
		memcmp(in->folder_path, in->path, len) == 0)
		return 0;
	memcpy(path, in->path, len);
	path[len] = '\0';
	cleanup_fd int fd =
		(int)syscall(SYS_openat2, in->base, len ? path : ".", &how, sizeof(how));
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
		return err_set(e, ERR_EXISTS, ENOTDIR, "%.200s is not a folder there", path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return no_writing(errno, in->path, e);
	return enter(in, fd_take(&fd), path, len, st.st_mtim);
}

static int make_folder(struct copy_in *in, const char *name, struct err *e)
{
	const struct tree_entry *m = &in->entry;
	bool made = mkdirat(in->folder, name, 0700) == 0;
	struct stat st;

	if (!made && errno != EEXIST)
		return no_writing(errno, in->path, e);
	cleanup_fd int fd =
		openat(in->folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return err_set(e, ERR_EXISTS, ENOTDIR,
			"%.200s is there already and is not a folder", in->path);
	bool stays = !made && m->mode & TREE_MODE_IMPLIED;
	if (fd < 0 || (made && fchown(fd, in->owner, in->group) < 0) ||
		(!stays && fchmod(fd, m->mode & 07777) < 0) || fstat(fd, &st) < 0)
		return no_writing(errno, in->path, e);
	/* Its content follows, most likely. */
	return enter(in, fd_take(&fd), in->path, strlen(in->path),
		stays ? st.st_mtim : tree_timespec(m->mtime_ns));
}

/* Files */

/* An open file without a name, or with the one in temp. */
static int open_file(int folder, char temp[static COPY_TEMP_SIZE])
{
	int fd = openat(folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	*temp = '\0';
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL &&
			       errno != ENOENT && errno != ENOSYS))
		return fd < 0 ? -errno : fd;
	int r = temporary_name(temp);
	if (r < 0)
		return r;
	fd = openat(folder, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		*temp = '\0';
	return fd < 0 ? -errno : fd;
}

static int replace(int folder, const char *temp, const char *name)
{
	if (renameat(folder, temp, folder, name) == 0)
		return 0;
	int r = -errno;
	(void)unlinkat(folder, temp, 0);
	return r;
}

/* Gives the file fd a name in folder, also in place of another one. */
static int link_file(int folder, int fd, const char *name)
{
	char temp[COPY_TEMP_SIZE];

	if (linkat(fd, "", folder, name, AT_EMPTY_PATH) == 0)
		return 0;
	int r = errno == EEXIST ? temporary_name(temp) : -errno;
	if (r < 0)
		return r;
	if (linkat(fd, "", folder, temp, AT_EMPTY_PATH) < 0)
		return -errno;
	return replace(folder, temp, name);
}

static int finish_file(struct copy_in *in, int fd, const char *temp, const char *name)
{
	const struct tree_entry *m = &in->entry;

	/* The owner first: a change of it takes setuid away. */
	if (fchown(fd, in->owner, in->group) < 0 || fchmod(fd, m->mode & 07777) < 0)
		return -errno;
	set_time(fd, tree_timespec(m->mtime_ns));
	return *temp ? replace(in->folder, temp, name) : link_file(in->folder, fd, name);
}

static int write_content(struct copy_in *in, int fd, struct err *e)
{
	uint64_t left = in->entry.size;

	while (left > 0) {
		int r = in->start == in->end ? copy_in_fill(in, e) : 0;
		if (r < 0)
			return r;
		size_t len = in->end - in->start;
		if (len > left)
			len = (size_t)left;
		r = fd_write_sparse(fd, in->data + in->start, len);
		if (r < 0)
			return no_writing(-r, in->path, e);
		in->start += len;
		left -= len;
	}
	int r = fd_end_sparse(fd);
	return r < 0 ? no_writing(-r, in->path, e) : 0;
}

static int make_file(struct copy_in *in, const char *name, struct err *e)
{
	char temp[COPY_TEMP_SIZE];
	cleanup_fd int fd = open_file(in->folder, temp);

	if (fd < 0)
		return no_writing(-fd, in->path, e);
	int r = write_content(in, fd, e);
	if (r < 0) {
		if (*temp)
			(void)unlinkat(in->folder, temp, 0);
		return r;
	}
	r = finish_file(in, fd, temp, name);
	return r == -EISDIR ? is_a_folder(in->path, e) : r < 0 ? no_writing(-r, in->path, e) : 0;
}

/* Links */

static int make_symlink(struct copy_in *in, const char *name, struct err *e)
{
	const struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT}, tree_timespec(in->entry.mtime_ns)};
	char temp[COPY_TEMP_SIZE];
	int r = temporary_name(temp);

	if (r == 0 && symlinkat(in->entry.target, in->folder, temp) < 0)
		r = -errno;
	if (r < 0)
		return no_writing(-r, in->path, e);
	/* In a folder with setgid it would have the folder's group. */
	(void)!fchownat(in->folder, temp, in->owner, in->group, AT_SYMLINK_NOFOLLOW);
	(void)utimensat(in->folder, temp, times, AT_SYMLINK_NOFOLLOW);
	r = replace(in->folder, temp, name);
	return r == -EISDIR ? is_a_folder(in->path, e) : r < 0 ? no_writing(-r, in->path, e) : 0;
}

/* To a file of the stream, which is below the base under the path that the stream gave it. */
static int make_hard_link(struct copy_in *in, const char *name, struct err *e)
{
	struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	char target[COPY_PATH_SIZE];
	struct stat st;

	copy_in_path(in, in->entry.target, target);
	cleanup_fd int fd = (int)syscall(SYS_openat2, in->base, target, &how, sizeof(how));
	if (fd < 0 || fstat(fd, &st) < 0)
		return no_writing(errno, in->path, e);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_PROTOCOL, EPROTO,
			"%.100s is a link to what is no file: %.100s", in->path, target);
	int r = link_file(in->folder, fd, name);
	return r == -EISDIR ? is_a_folder(in->path, e) : r < 0 ? no_writing(-r, in->path, e) : 0;
}

/* A device, pipe or socket is nothing that a copy replaces. */
static int refuse_special(const struct copy_in *in, const char *name, struct err *e)
{
	struct stat st;

	if (fstatat(in->folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISREG(st.st_mode) ||
		S_ISLNK(st.st_mode) || S_ISDIR(st.st_mode))
		return 0;
	return err_set(e, ERR_EXISTS, EEXIST, "%.200s is there already and is no file or folder",
		in->path);
}

int copy_in_make(struct copy_in *in, struct err *e)
{
	const char *name;
	int r = enter_folder(in, &name, e);

	if (r == 0 && in->entry.type != TREE_SKIPPED)
		r = refuse_special(in, name, e);
	if (r < 0)
		return r;
	switch (in->entry.type) {
	case TREE_FILE:
		return make_file(in, name, e);
	case TREE_DIR:
		return make_folder(in, name, e);
	case TREE_SYMLINK:
		return make_symlink(in, name, e);
	case TREE_HARDLINK:
		return make_hard_link(in, name, e);
	case TREE_SKIPPED:
		return 0;
	case TREE_WHITEOUT:
	case TREE_OPAQUE:
	case TREE_END:
	case TREE_TYPE_END:
		break;
	}
	return err_set(e, ERR_PROTOCOL, EPROTO, "%.200s is nothing that can be made", in->path);
}
