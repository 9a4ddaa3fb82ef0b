/* SPDX-License-Identifier: Apache-2.0 */
#include "user.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIELDS_MAX 7

/* One line of name:x:fields..., cut into fields that point into the file. */
struct entry {
	const char *at[FIELDS_MAX];
	size_t len[FIELDS_MAX];
	size_t count;
};

/* Takes the next line off *text. */
static bool next_entry(const char **text, struct entry *ret)
{
	const char *at = *text;

	if (!at || *at == '\0')
		return false;
	ret->count = 0;
	while (ret->count < FIELDS_MAX) {
		size_t len = strcspn(at, ":\n");

		ret->at[ret->count] = at;
		ret->len[ret->count++] = len;
		at += len;
		if (*at != ':')
			break;
		at++;
	}
	at += strcspn(at, "\n");
	*text = *at ? at + 1 : at;
	return true;
}

/* A decimal id below 2^31, the whole of s; -1 else. */
static long parse_id(const char *s, size_t len)
{
	long v = 0;

	if (len == 0 || len > 10)
		return -1;
	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -1;
		v = v * 10 + (s[i] - '0');
	}
	return v <= INT32_MAX ? v : -1;
}

static bool is_field(const struct entry *en, size_t i, const char *s, size_t len)
{
	return i < en->count && en->len[i] == len && memcmp(en->at[i], s, len) == 0;
}

/* The first entry of that name or with that number (field 2 in both files). */
static bool find_entry(const char *text, const char *key, size_t key_len, struct entry *ret)
{
	long id = parse_id(key, key_len);

	while (next_entry(&text, ret)) {
		if (ret->count < 3)
			continue;
		if (key_len > 0 && is_field(ret, 0, key, key_len))
			return true;
		if (id >= 0 && parse_id(ret->at[2], ret->len[2]) == id)
			return true;
	}
	return false;
}

static bool is_member(const struct entry *group, const char *name, size_t len)
{
	const char *at, *end;

	if (group->count < 4)
		return false;
	at = group->at[3];
	end = at + group->len[3];
	while (at < end) {
		const char *comma = memchr(at, ',', (size_t)(end - at));
		size_t part = (size_t)((comma ? comma : end) - at);

		if (part == len && memcmp(at, name, len) == 0)
			return true;
		at += part + 1;
	}
	return false;
}

static void add_supplementary(struct user *u, const char *group, const struct entry *who)
{
	struct entry en;

	while (u->groups_len < USER_GROUPS_MAX && next_entry(&group, &en)) {
		long gid = en.count < 3 ? -1 : parse_id(en.at[2], en.len[2]);

		if (gid >= 0 && is_member(&en, who->at[0], who->len[0]))
			u->groups[u->groups_len++] = (gid_t)gid;
	}
}

static int resolve_group(const char *spec, const char *group, struct user *u, struct err *e)
{
	struct entry en;
	long gid = -1;

	if (find_entry(group, spec, strlen(spec), &en))
		gid = parse_id(en.at[2], en.len[2]);
	if (gid < 0)
		gid = parse_id(spec, strlen(spec));
	if (gid < 0)
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			"the image has no group \"%.64s\" in /etc/group", spec);
	u->gid = (gid_t)gid;
	u->groups_len = 0;
	return 0;
}

int user_resolve(
	const char *spec, const char *passwd, const char *group, struct user *ret, struct err *e)
{
	struct user u = {.home = "/"};
	struct entry en;
	const char *name = *spec && *spec != ':' ? spec : "0";
	size_t len = strcspn(name, ":");
	const char *colon = strchr(spec, ':');

	if (find_entry(passwd, name, len, &en)) {
		long uid = parse_id(en.at[2], en.len[2]);
		long gid = en.count > 3 ? parse_id(en.at[3], en.len[3]) : 0;

		if (uid < 0 || gid < 0)
			return err_set(e, ERR_INVALID, EINVAL,
				"the image's /etc/passwd entry of \"%.*s\" is malformed",
				(int)(len < 64 ? len : 64), name);
		u.uid = (uid_t)uid;
		u.gid = (gid_t)gid;
		if (en.count > 5 && en.len[5] > 0 && en.len[5] < sizeof(u.home))
			(void)snprintf(u.home, sizeof(u.home), "%.*s", (int)en.len[5], en.at[5]);
		add_supplementary(&u, group, &en);
	} else {
		long uid = parse_id(name, len);

		if (uid < 0)
			return err_set(e, ERR_NOT_FOUND, ENOENT,
				"the image has no user \"%.*s\" in /etc/passwd",
				(int)(len < 64 ? len : 64), name);
		u.uid = (uid_t)uid;
	}
	if (colon && colon[1]) {
		int r = resolve_group(colon + 1, group, &u, e);
		if (r < 0)
			return r;
	}
	*ret = u;
	return 0;
}

/* As the container sees it, also when it is in a mount. A missing one is empty. */
static int read_file(const char *path, struct buf *b, struct err *e)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		.resolve = RESOLVE_NO_MAGICLINKS};
	struct stat st;
	cleanup_fd int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR
			       ? 0
			       : err_errno(e, errno, "cannot read the container's %s", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, EINVAL, "the container's %s is not a file", path);
	int r = fd_read_all(fd, b);
	return r < 0 ? err_errno(e, -r, "cannot read the container's %s", path) : 0;
}

int user_lookup(const char *spec, struct user *ret, struct err *e)
{
	cleanup_buf struct buf passwd = {0};
	cleanup_buf struct buf group = {0};
	int r;

	buf_init(&passwd, USER_FILE_MAX);
	buf_init(&group, USER_FILE_MAX);
	if ((r = read_file("/etc/passwd", &passwd, e)) < 0 ||
		(r = read_file("/etc/group", &group, e)) < 0)
		return r;
	return user_resolve(spec, buf_cstr(&passwd), buf_cstr(&group), ret, e);
}
