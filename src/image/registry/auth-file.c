/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One change: the lock; read; change; write a temporary file beside it; rename. Who is killed in
 * between leaves the old file, and perhaps a temporary one, which the next who has the lock
 * removes.
 */
#include "auth-file.h"

#include "../../base/fd.h"
#include "../../base/file.h"
#include "../../base/json.h"
#include "../../base/strv.h"
#include "../../base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define AUTH_FILE_MAX (1024u * 1024)

const char *auth_file_path(void)
{
	const char *path = getenv("KOSA8_AUTH_FILE");

	return path ? path : "";
}

static int refuse(struct err *e, enum err_kind kind, const char *why)
{
	return err_set(e, kind, 0, "%.250s %s", auth_file_path(), why);
}

/* A missing file is empty. */
static int read_file(struct buf *b, struct err *e)
{
	const char *path = auth_file_path();
	struct stat st;

	buf_init(b, AUTH_FILE_MAX);
	if (!*path)
		return 0;
	cleanup_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0 && errno == ELOOP) {
		(void)refuse(e, ERR_INVALID, "is a symbolic link, which is not followed");
		return err_hint(e, "put the file itself there, or remove the link");
	}
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(e, errno, "cannot read %.250s", path);
	if (!S_ISREG(st.st_mode))
		return refuse(e, ERR_INVALID, "is not a file");
	if (st.st_uid != geteuid())
		return refuse(e, ERR_DENIED, "belongs to another user");
	if (st.st_mode & 077) {
		(void)refuse(e, ERR_DENIED, "can be read or changed by others");
		return err_hint(e, "chmod 600 %.150s", path);
	}
	int r = fd_read_all(fd, b);
	return r < 0 ? err_errno(e, -r, "cannot read %.250s", path) : 0;
}

static int broken(struct err *e)
{
	(void)err_wrap(e, "%.200s", auth_file_path());
	return err_hint(e, "move it away and log in again");
}

int auth_file_entry(const char *registry, struct credentials_entry *ret, struct err *e)
{
	cleanup_secret_buf struct buf b = {0};
	int r = read_file(&b, e);

	*ret = (struct credentials_entry){0};
	if (r < 0 || secret_is_blank(&b))
		return r;
	return credentials_parse(registry, b.data, b.len, ret, e) < 0 ? broken(e) : 0;
}

static int load(json_t **ret, struct err *e)
{
	cleanup_secret_buf struct buf b = {0};
	int r = read_file(&b, e);

	if (r < 0)
		return r;
	if (!secret_is_blank(&b))
		return secret_json_parse(b.data, b.len, "it", ret, e) < 0 ? broken(e) : 0;
	*ret = json_object();
	return *ret ? 0 : err_errno(e, ENOMEM, "cannot keep credentials");
}

/* The object of this name, made when missing, without the entries for the registry, whatever way
 * they are written. */
static json_t *member_without(json_t *file, const char *name, const char *registry)
{
	json_t *o = json_object_get(file, name), *value;
	const char *key;
	void *next;

	if (!json_is_object(o)) {
		o = json_object();
		if (json_object_set_new(file, name, o) < 0)
			return NULL;
	}
	json_object_foreach_safe (o, next, key, value) {
		char host[300];
		credentials_key_host(key, host, sizeof(host));
		if (strcmp(host, registry) == 0)
			(void)json_object_del(o, key);
	}
	return o;
}

static int change(json_t *file, const char *registry, const char *user, const char *password,
	const char *helper, struct err *e)
{
	json_t *auths = member_without(file, "auths", registry);
	json_t *helpers = member_without(file, "credHelpers", registry);
	const char *key = credentials_host_key(registry);
	int r = auths && helpers ? 0 : -1;

	if (r == 0 && helper) {
		r = json_object_set_new(helpers, key, json_string(helper));
	} else if (r == 0 && user) {
		cleanup_secret char *basic = credentials_basic(user, password);
		r = basic ? json_object_set_new(auths, key, json_pack("{s:s}", "auth", basic)) : -1;
	}
	if (helpers && json_object_size(helpers) == 0)
		(void)json_object_del(file, "credHelpers");
	return r < 0 ? err_errno(e, ENOMEM, "cannot keep credentials") : 0;
}

static int write_file(int dirfd, const char *name, const json_t *file, struct err *e)
{
	cleanup_secret char *text = json_dumps(file, JSON_INDENT(8) | JSON_PRESERVE_ORDER);

	if (!text)
		return err_errno(e, ENOMEM, "cannot keep credentials");
	int r = file_write_atomic(dirfd, name, text, strlen(text), 0600, true);
	return r < 0 ? err_errno(e, -r, "cannot write %.250s", auth_file_path()) : 0;
}

/* file_write_atomic()'s temporary files that killed processes left: they hold secrets. */
static void sweep(int dirfd, const char *name)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	size_t len = strlen(name);
	struct dirent *de;

	if (!d) {
		(void)fd_close(fd);
		return;
	}
	while ((de = readdir(d))) {
		size_t n = strlen(de->d_name);
		if (n > len + 5 && text_starts_with(de->d_name, name) && de->d_name[len] == '.' &&
			strcmp(de->d_name + n - 4, ".tmp") == 0)
			(void)unlinkat(dirfd, de->d_name, 0);
	}
	(void)closedir(d);
}

static int change_locked(int dirfd, const char *name, const char *registry, const char *user,
	const char *password, const char *helper, struct err *e)
{
	cleanup_json *file = NULL;
	int r;

	sweep(dirfd, name);
	if ((r = load(&file, e)) < 0 || (r = change(file, registry, user, password, helper, e)) < 0)
		return r;
	return write_file(dirfd, name, file, e);
}

int auth_file_change(const char *registry, const char *user, const char *password,
	const char *helper, struct err *e)
{
	const char *path = auth_file_path(), *slash = strrchr(path, '/');
	cleanup_str char *folder = NULL, *lock_name = NULL;

	if (!slash || !slash[1])
		return err_set(e, ERR_INTERNAL, 0, "KOSA8_AUTH_FILE is not an absolute path");
	folder = strndup(path, slash == path ? 1 : (size_t)(slash - path));
	if (!folder || asprintf(&lock_name, "%s.lock", slash + 1) < 0) {
		lock_name = NULL;
		return err_errno(e, ENOMEM, "cannot keep credentials");
	}
	cleanup_fd int dirfd = dir_open(AT_FDCWD, folder, false, 0700);
	if (dirfd < 0)
		return err_errno(e, -dirfd, "cannot open %.250s", folder);
	cleanup_fd int lock = lock_open(dirfd, lock_name, true);
	if (lock < 0)
		return err_errno(e, -lock, "cannot lock %.250s", path);
	return change_locked(dirfd, slash + 1, registry, user, password, helper, e);
}
