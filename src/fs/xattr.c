/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes: the guest has user.*, but for those in which kosa8 keeps something. The
 * agent sets two of trusted.kosa8 on the root, which are not kept on the host. */
#include "server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define OWN_PREFIX "user.kosa8."
#define LIST_MAX 65536	/* XATTR_LIST_MAX */
#define VALUE_MAX 65536 /* XATTR_SIZE_MAX */

static int check_name(const char *name)
{
	if (strncmp(name, OWN_PREFIX, strlen(OWN_PREFIX)) == 0 || strncmp(name, "user.", 5) != 0)
		return -EOPNOTSUPP;
	return 0;
}

static int xattr_path(struct fs *fs, struct node *node, char ret[static 32])
{
	int fd = node_any_fd(fs, node);

	if (fd < 0)
		return fd;
	(void)snprintf(ret, 32, "/proc/self/fd/%d", fd);
	return fd;
}

/* What the agent tells: whose the files are, and which process its relay is. */
static int set_own(struct fs *fs, const struct request *q, const char *name, size_t size)
{
	char value[32] = "", end;
	unsigned a, b;

	if (q->node->id != NODE_ROOT || q->h.uid != 0 || size == 0 || size >= sizeof(value) ||
		size > q->left)
		return -EINVAL;
	memcpy(value, q->at, size);
	if (strcmp(name, "owner") == 0 && sscanf(value, "%10u:%10u%c", &a, &b, &end) == 2) {
		if (a == fs->owner_uid && b == fs->owner_gid)
			return 0;
		fs->owner_uid = a;
		fs->owner_gid = b;
		notify_all(fs);
		return 0;
	}
	if (strcmp(name, "relay") == 0 && sscanf(value, "%10u%c", &a, &end) == 1) {
		fs->relay_pid = q->h.pid;
		return 0;
	}
	return -EINVAL;
}

int op_setxattr(struct fs *fs, struct request *q)
{
	struct widened w = NOT_WIDENED;
	struct {
		uint32_t size, flags;
	} in; /* the short form: FUSE_SETXATTR_EXT is not asked for */
	const char *name;
	char path[32];
	int fd, r;

	if (!take(q, &in, sizeof(in)))
		return -EINVAL;
	if ((r = take_string(q, &name)) < 0)
		return r;
	if (strncmp(name, "trusted.kosa8.", 14) == 0)
		return set_own(fs, q, name + 14, in.size);
	if (fs->read_only)
		return -EROFS;
	if (in.size > q->left)
		return -EINVAL;
	if ((r = check_name(name)) < 0)
		return r;
	if ((fd = xattr_path(fs, q->node, path)) < 0)
		return fd;
	if (q->node->type != S_IFREG && q->node->type != S_IFDIR)
		return -EPERM;
	watch_own_node(fs, q->node);
	r = setxattr(path, name, q->at, in.size, (int)in.flags) < 0 ? -errno : 0;
	if (widen(fs, q, r, q->node, fd, &w)) {
		r = setxattr(path, name, q->at, in.size, (int)in.flags) < 0 ? -errno : 0;
		narrow(fs, &w);
	}
	return r;
}

int op_removexattr(struct fs *fs, struct request *q)
{
	const char *name;
	char path[32];
	int r;

	if ((r = take_string(q, &name)) < 0 || (r = check_name(name)) < 0 ||
		(r = xattr_path(fs, q->node, path)) < 0)
		return r;
	watch_own_node(fs, q->node);
	return removexattr(path, name) < 0 ? -errno : 0;
}

/* A size of 0 asks how much there is. */
static int reply_value(struct request *q, uint32_t room, const void *value, ssize_t len)
{
	struct fuse_getxattr_out out = {.size = (uint32_t)len};

	if (room == 0) {
		memcpy(q->out, &out, sizeof(out));
		return sizeof(out);
	}
	if ((size_t)len > room)
		return -ERANGE;
	memcpy(q->out, value, (size_t)len);
	return (int)len;
}

int op_getxattr(struct fs *fs, struct request *q)
{
	static char value[VALUE_MAX];
	struct fuse_getxattr_in in;
	const char *name;
	char path[32];
	int r;

	if (!take(q, &in, sizeof(in)))
		return -EINVAL;
	if ((r = take_string(q, &name)) < 0)
		return r;
	if (check_name(name) < 0)
		return strncmp(name, "security.", 9) == 0 || strncmp(name, "user.", 5) == 0
			       ? -ENODATA
			       : -EOPNOTSUPP;
	if (q->node->type != S_IFREG && q->node->type != S_IFDIR)
		return -ENODATA;
	if ((r = xattr_path(fs, q->node, path)) < 0)
		return r;
	ssize_t n = getxattr(path, name, value, sizeof(value));
	return n < 0 ? -errno : reply_value(q, in.size, value, n);
}

/* Keeps the guest's. */
static size_t filter_names(char *names, size_t len)
{
	size_t kept = 0;

	for (size_t at = 0, n; at < len; at += n) {
		n = strnlen(names + at, len - at) + 1;
		if (at + n > len || check_name(names + at) < 0)
			continue;
		memmove(names + kept, names + at, n);
		kept += n;
	}
	return kept;
}

int op_listxattr(struct fs *fs, struct request *q)
{
	static char names[LIST_MAX];
	struct fuse_getxattr_in in;
	char path[32];
	ssize_t n = 0;
	int r;

	if (!take(q, &in, sizeof(in)))
		return -EINVAL;
	if ((r = xattr_path(fs, q->node, path)) < 0)
		return r;
	if (q->node->type == S_IFREG || q->node->type == S_IFDIR)
		n = listxattr(path, names, sizeof(names));
	if (n < 0)
		return -errno;
	return reply_value(q, in.size, names, (ssize_t)filter_names(names, (size_t)n));
}
