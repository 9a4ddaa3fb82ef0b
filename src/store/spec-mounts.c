/* SPDX-License-Identifier: Apache-2.0 */
#include "spec-mounts.h"

#include "../base/fd.h"
#include "../base/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a guest path may be at most: it travels in one small message (proto/agent-files.h). */
#define GUEST_MAX 1024

static const char *const mode_names[] = {
	[AGENT_MOUNT_RW] = "rw",
	[AGENT_MOUNT_RO] = "ro",
	[AGENT_MOUNT_COW] = "cow",
};
static_assert(sizeof(mode_names) / sizeof(mode_names[0]) == AGENT_MOUNT_MODE_COUNT,
	"a name for every mode");

const char *mount_mode_name(enum agent_mount_mode m)
{
	return mode_names[m];
}

int mount_mode_from_name(const char *name, enum agent_mount_mode *ret)
{
	for (unsigned i = 0; i < AGENT_MOUNT_MODE_COUNT; i++)
		if (strcmp(name, mode_names[i]) == 0) {
			*ret = (enum agent_mount_mode)i;
			return 0;
		}
	return -EINVAL;
}

void spec_mount_release(struct spec_mount *m)
{
	free(m->host);
	free(m->guest);
	*m = (struct spec_mount){0};
}

int spec_mount_copy(const struct spec_mount *from, struct spec_mount *ret)
{
	*ret = (struct spec_mount){from->id, from->mode, strdup(from->host), strdup(from->guest)};
	if (ret->host && ret->guest)
		return 0;
	spec_mount_release(ret);
	return -ENOMEM;
}

void spec_mounts_release(struct spec_mounts *m)
{
	for (size_t i = 0; i < m->len; i++)
		spec_mount_release(&m->list[i]);
	*m = (struct spec_mounts){0};
}

static int bad_mount(struct err *e, const char *text, const char *why)
{
	char safe[120];

	text_escape(text, safe, sizeof(safe));
	(void)err_set(e, ERR_INVALID, 0, "the mount \"%s\": %s", safe, why);
	return err_hint(e, "HOST:GUEST or HOST:GUEST:MODE: a folder of the host, an absolute path "
			   "in the sandbox, and rw, ro or cow");
}

static bool is_at_or_below(const char *path, const char *top)
{
	size_t len = strlen(top);

	return strncmp(path, top, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

/* Copies without empty and "." components. False for ".." and for what does not fit. */
static bool make_normal(const char *path, char ret[static GUEST_MAX])
{
	size_t at = 0;

	while (*path) {
		size_t len = strcspn(path, "/");
		if (len == 2 && memcmp(path, "..", 2) == 0)
			return false;
		if (len > 0 && !(len == 1 && *path == '.')) {
			if (len > NAME_MAX || at + 1 + len >= GUEST_MAX)
				return false;
			ret[at++] = '/';
			memcpy(ret + at, path, len);
			at += len;
		}
		path += len;
		path += *path == '/';
	}
	ret[at] = '\0';
	return true;
}

static int check_guest(const char *guest, char ret[static GUEST_MAX], struct err *e)
{
	static const char *const taken[] = {"/proc", "/sys", "/dev"};

	if (*guest != '/')
		return bad_mount(e, guest, "the path in the sandbox does not begin with /");
	if (!text_is_utf8(guest, strlen(guest)))
		return bad_mount(e, guest, "the path in the sandbox is not UTF-8");
	if (!make_normal(guest, ret))
		return bad_mount(e, guest, "the path in the sandbox has a .. or is too long");
	if (*ret == '\0')
		return bad_mount(e, guest, "the sandbox's / cannot be a mount");
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		if (is_at_or_below(ret, taken[i]))
			return bad_mount(
				e, guest, "/proc, /sys and /dev are the sandbox's own kernel's");
	if (strcmp(ret, "/workspace") == 0)
		return bad_mount(
			e, guest, "/workspace is the sandbox's own; a folder below it can be one");
	return 0;
}

int spec_mount_make(const char *host, const char *guest, const char *mode, struct spec_mount *ret,
	struct err *e)
{
	char normal[GUEST_MAX];
	struct spec_mount m = {0};
	int r;

	if (mount_mode_from_name(mode, &m.mode) < 0)
		return bad_mount(e, mode, "the mode is none of rw, ro, cow");
	if (*host == '\0')
		return bad_mount(e, guest, "the folder of the host is missing");
	if (strlen(host) >= PATH_MAX)
		return bad_mount(e, guest, "the path on the host is too long");
	if ((r = check_guest(guest, normal, e)) < 0)
		return r;
	m.host = strdup(host);
	m.guest = strdup(normal);
	if (!m.host || !m.guest) {
		spec_mount_release(&m);
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	}
	*ret = m;
	return 0;
}

/* The last ":/" of text that ends at len, or NULL. */
static const char *last_split(const char *text, size_t len)
{
	for (size_t i = len; i-- > 1;)
		if (text[i] == '/' && text[i - 1] == ':')
			return text + i - 1;
	return NULL;
}

int spec_mount_parse(const char *text, struct spec_mount *ret, struct err *e)
{
	size_t len = strlen(text);
	enum agent_mount_mode mode = AGENT_MOUNT_RW;
	const char *colon = strrchr(text, ':');

	if (len >= 2 * PATH_MAX)
		return bad_mount(e, text, "it is too long");
	if (colon && colon[1] != '/') {
		if (mount_mode_from_name(colon + 1, &mode) < 0)
			return bad_mount(e, text,
				last_split(text, len)
					? "its end is none of :rw, :ro, :cow"
					: "the path in the sandbox does not begin with /");
		len = (size_t)(colon - text);
	}
	for (unsigned i = 0; len < strlen(text) && i < AGENT_MOUNT_MODE_COUNT; i++) {
		size_t n = strlen(mode_names[i]);
		if (len > n && text[len - n - 1] == ':' &&
			strncmp(text + len - n, mode_names[i], n) == 0)
			return bad_mount(e, text, "it ends in two modes");
	}
	const char *split = last_split(text, len);
	if (!split)
		return bad_mount(e, text, "there is no path in the sandbox");
	char *host = strndup(text, (size_t)(split - text));
	char *guest = strndup(split + 1, len - (size_t)(split + 1 - text));
	int r = host && guest ? spec_mount_make(host, guest, mode_names[mode], ret, e)
			      : err_set(e, ERR_IO, ENOMEM, "out of memory");
	free(host);
	free(guest);
	return r;
}

/* The path by which the kernel knows an open folder. */
static int path_of(int fd, char ret[static PATH_MAX])
{
	char link[40];

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, ret, PATH_MAX);
	if (n < 0)
		return -errno;
	if (n >= PATH_MAX)
		return -ENAMETOOLONG;
	ret[n] = '\0';
	return 0;
}

static bool same_folder(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/* The guest could rewrite its own record, its disk, its checkpoints. */
static int check_home(int fd, const char *path, int home_dirfd, const char *safe, struct err *e)
{
	char home[PATH_MAX];
	int r = path_of(home_dirfd, home);

	if (r < 0)
		return err_errno(e, -r, "cannot tell where the state directory is");
	bool root = strcmp(path, "/") == 0;
	if (root || is_at_or_below(home, path) || same_folder(fd, home_dirfd))
		(void)err_set(e, ERR_DENIED, 0,
			"the folder %s holds kosa8's own state (%.200s): the sandbox could rewrite "
			"its own record",
			safe, home);
	else if (is_at_or_below(path, home))
		(void)err_set(e, ERR_DENIED, 0,
			"the folder %s is in kosa8's own state: the sandbox could rewrite its own "
			"record",
			safe);
	else
		return 0;
	return err_hint(e, "a folder beside it");
}

int spec_mount_open(const char *host, int home_dirfd, int *ret_fd, char **ret_host, struct err *e)
{
	char path[PATH_MAX], safe[200];
	struct stat st;
	int r;

	text_escape(host, safe, sizeof(safe));
	cleanup_fd int fd = open(host, O_PATH | O_CLOEXEC);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return err_set(e, ERR_NOT_FOUND, errno, "there is no folder %s", safe);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(e, errno, "cannot open the folder %s", safe);
	if (!S_ISDIR(st.st_mode)) {
		(void)err_set(
			e, ERR_INVALID, 0, "%s is not a folder: only folders can be mounted", safe);
		return err_hint(e, "the folder that it is in, or kosa8 sandbox cp");
	}
	if ((r = path_of(fd, path)) < 0)
		return err_errno(e, -r, "cannot tell where the folder %s is", safe);
	if (!text_is_utf8(path, strlen(path)))
		return err_set(e, ERR_INVALID, 0, "the path of the folder %s is not UTF-8", safe);
	if ((r = check_home(fd, path, home_dirfd, safe, e)) < 0)
		return r;
	if (ret_host && !(*ret_host = strdup(path)))
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	*ret_fd = fd_take(&fd);
	return 0;
}

int spec_mounts_add(struct spec_mounts *all, struct spec_mount *m, struct err *e)
{
	if (all->len == SPEC_MOUNTS_MAX)
		return err_set(e, ERR_LIMIT, 0, "a sandbox has at most %d mounts", SPEC_MOUNTS_MAX);
	for (size_t i = 0; i < all->len; i++)
		if (strcmp(all->list[i].guest, m->guest) == 0)
			return err_set(
				e, ERR_EXISTS, 0, "there is a mount at %.200s already", m->guest);
	if (all->next_id >= INT32_MAX)
		return err_set(e, ERR_LIMIT, 0, "the sandbox has had too many mounts");
	m->id = all->next_id ? all->next_id : 1;
	all->next_id = m->id + 1;
	all->list[all->len++] = *m;
	*m = (struct spec_mount){.id = m->id};
	return 0;
}

int spec_mounts_find(const struct spec_mounts *all, const char *guest, size_t *ret, struct err *e)
{
	char normal[GUEST_MAX], safe[200];

	text_escape(guest, safe, sizeof(safe));
	if (*guest == '/' && make_normal(guest, normal))
		for (size_t i = 0; i < all->len; i++)
			if (strcmp(all->list[i].guest, normal) == 0) {
				*ret = i;
				return 0;
			}
	return err_set(e, ERR_NOT_FOUND, 0, "there is no mount at %s", safe);
}

void spec_mounts_remove(struct spec_mounts *all, size_t i)
{
	assert(i < all->len);
	spec_mount_release(&all->list[i]);
	memmove(&all->list[i], &all->list[i + 1], (all->len - i - 1) * sizeof(all->list[0]));
	all->len--;
}

json_t *spec_mounts_encode(const struct spec_mounts *all)
{
	json_t *list = json_array();

	for (size_t i = 0; i < all->len; i++)
		if (json_array_append_new(list,
			    json_pack("{s:I, s:s, s:s, s:s}", "id", (json_int_t)all->list[i].id,
				    "host", all->list[i].host, "guest", all->list[i].guest, "mode",
				    mode_names[all->list[i].mode])) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static int decode_one(const json_t *o, struct spec_mounts *all, struct err *e)
{
	cleanup_spec_mount struct spec_mount m = {0};
	const char *host, *guest, *mode;
	uint64_t id;
	int r;

	if ((r = json_get_u64(o, "id", INT32_MAX - 1, &id, e)) < 0 ||
		(r = json_get_str(o, "host", PATH_MAX - 1, &host, e)) < 0 ||
		(r = json_get_str(o, "guest", GUEST_MAX - 1, &guest, e)) < 0 ||
		(r = json_get_str(o, "mode", 8, &mode, e)) < 0 ||
		(r = spec_mount_make(host, guest, mode, &m, e)) < 0)
		return r;
	if (*host != '/')
		return err_set(e, ERR_INVALID, 0, "the folder of a mount is not absolute");
	for (size_t i = 0; i < all->len; i++)
		if (id == 0 || all->list[i].id >= id)
			return err_set(e, ERR_INVALID, 0, "the ids of the mounts do not grow");
	all->next_id = (uint32_t)id;
	return spec_mounts_add(all, &m, e);
}

int spec_mounts_decode(const json_t *list, struct spec_mounts *ret, struct err *e)
{
	struct spec_mounts all = {.next_id = 1};
	json_t *item;
	size_t i;
	int r = 0;

	json_array_foreach (list, i, item) {
		r = decode_one(item, &all, e);
		if (r < 0) {
			spec_mounts_release(&all);
			return r;
		}
	}
	*ret = all;
	return 0;
}
