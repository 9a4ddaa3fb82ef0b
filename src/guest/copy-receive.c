/* SPDX-License-Identifier: Apache-2.0 */
#include "copy-in.h"

#include "../base/fd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int copy_in_find(const struct copy_root *root, const char *path, const char *name, bool contents,
	struct copy_place_at *ret, struct err *e)
{
	struct copy_place_at at;
	int r = copy_find_target(root, path, &at, e);

	if (r < 0)
		return r;
	if (*at.name && contents)
		r = err_set(e, ERR_NOT_FOUND, ENOENT, "no such folder in the %s: %.200s",
			root->what, path);
	else if (!*at.name && !contents && !*name)
		r = err_set(e, ERR_EXISTS, EEXIST,
			"the folder %.200s was made while this began: copy again", path);
	else if (!*at.name && !contents && (strchr(name, '/') || !tree_path_is_safe(name)))
		r = err_set(e, ERR_INVALID, EINVAL, "%.200s is a folder, and \"%.100s\" is no name",
			path, name);
	if (r < 0) {
		(void)fd_close(at.fd);
		return r;
	}
	if (!*at.name && !contents)
		(void)snprintf(at.name, sizeof(at.name), "%s", name);
	*ret = at;
	return 0;
}

int copy_in_fill(struct copy_in *in, struct err *e)
{
	ssize_t n;

	memmove(in->data, in->data + in->start, in->end - in->start);
	in->end -= in->start;
	in->start = 0;
	do
		n = read(in->fd, in->data + in->end, sizeof(in->data) - in->end);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_errno(e, errno, "receive the files");
	if (n == 0)
		return err_set(e, ERR_CANCELLED, ECANCELED,
			"the files ended before they were complete%s%.150s",
			*in->path ? ": at " : "", in->path);
	in->end += (size_t)n;
	return 0;
}

void copy_in_path(const struct copy_in *in, const char *path, char ret[static COPY_PATH_SIZE])
{
	(void)snprintf(
		ret, COPY_PATH_SIZE, "%s%s%s", in->name, *in->name && *path ? "/" : "", path);
}

static int next_entry(struct copy_in *in, struct err *e)
{
	for (;;) {
		int n = tree_entry_parse(in->data + in->start, in->end - in->start, &in->entry);

		if (n < 0)
			return err_set(e, ERR_PROTOCOL, EPROTO, "what came is not a tree of files");
		in->start += (size_t)n;
		if (n > 0)
			return 0;
		int r = copy_in_fill(in, e);
		if (r < 0)
			return r;
	}
}

/* The root is what everything else is below. */
static int make_root(struct copy_in *in, bool folder_only, struct err *e)
{
	enum tree_type type = in->entry.type;

	if (*in->entry.path || type == TREE_END)
		return err_set(e, ERR_PROTOCOL, EPROTO, "the tree has no root");
	if (type != TREE_DIR && (folder_only || !*in->name))
		return err_set(e, ERR_INVALID, ENOTDIR, "only a folder can go there");
	if (type != TREE_DIR && type != TREE_FILE && type != TREE_SYMLINK)
		return err_set(e, ERR_INVALID, EINVAL,
			"only files, folders and symbolic links can be copied");
	/* A folder whose content was asked for stays what it is. */
	return *in->name ? copy_in_make(in, e) : 0;
}

static int receive(struct copy_in *in, bool folder_only, struct err *e)
{
	int r = next_entry(in, e);

	if (r == 0) {
		copy_in_path(in, in->entry.path, in->path);
		r = make_root(in, folder_only, e);
	}
	bool is_folder = in->entry.type == TREE_DIR;
	while (r == 0) {
		if ((r = next_entry(in, e)) < 0 || in->entry.type == TREE_END)
			break;
		if (!*in->entry.path || !is_folder)
			return err_set(e, ERR_PROTOCOL, EPROTO, "the tree has two roots");
		copy_in_path(in, in->entry.path, in->path);
		r = copy_in_make(in, e);
	}
	return r;
}

int copy_in_receive(const struct copy_place_at *to, uid_t owner, gid_t group, int fd, struct err *e)
{
	struct copy_in *in = calloc(1, sizeof(*in));

	if (!in)
		return err_errno(e, ENOMEM, "receive the files");
	in->fd = fd;
	in->base = to->fd;
	in->name = to->name;
	in->owner = owner;
	in->group = group;
	in->folder = -1;
	int r = receive(in, to->folder_only, e);
	copy_in_leave_folder(in);
	free(in);
	return r;
}
