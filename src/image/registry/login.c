/* SPDX-License-Identifier: Apache-2.0 */
#include "login.h"

#include "auth-file.h"
#include "credential-helper.h"
#include "login-ask.h"

#include "../../base/fd.h"
#include "../../base/strv.h"
#include "../../base/text.h"
#include "../../proto/reference.h"

#include <errno.h>

#define USER_MAX 1024

static int check_registry(const char *registry, struct err *e)
{
	char name[REFERENCE_CANONICAL_SIZE];
	struct reference ref;
	int n = snprintf(name, sizeof(name), "%s/x/x", registry);

	if (n < 0 || (size_t)n >= sizeof(name) || reference_parse(name, &ref, e) < 0 ||
		strcmp(ref.registry, registry) != 0)
		return err_set(e, ERR_INVALID, 0, "%.100s is not the name of a registry", registry);
	return 0;
}

static bool has_control_bytes(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return true;
	return false;
}

static int read_secret(int fd, struct buf *b, const char **ret, struct err *e)
{
	int r = fd_read_all(fd, b);

	if (r < 0 && r != -E2BIG)
		return err_errno(e, -r, "cannot read the password");
	*ret = r < 0 ? NULL : buf_cstr(b);
	if (!*ret)
		return err_set(e, ERR_LIMIT, 0, "the password is longer than %u bytes",
			CREDENTIAL_MAX - 1);
	if (b->len == 0)
		return err_set(e, ERR_INVALID, 0, "the password is empty");
	if (strlen(*ret) != b->len || has_control_bytes(*ret) || !text_is_utf8(*ret, b->len))
		return err_set(e, ERR_INVALID, 0,
			"the password is not one line of UTF-8 without control characters");
	return 0;
}

static int check_user(const char *user, struct err *e)
{
	size_t len = strlen(user);

	if (len == 0 || len > USER_MAX || strchr(user, ':') || has_control_bytes(user) ||
		!text_is_utf8(user, len))
		return err_set(e, ERR_INVALID, 0,
			"a user name is 1 to %d bytes of UTF-8 without ':' and control characters",
			USER_MAX);
	return 0;
}

/* The helper that is to keep the secret, and the one of an earlier login; "" for auth.json. */
struct keepers {
	char now[HELPER_NAME_SIZE], before[HELPER_NAME_SIZE];
};

/* docker's configuration chooses, as it is now. */
static int choose_keeper(const char *registry, struct keepers *ret, struct err *e)
{
	cleanup_credentials_entry struct credentials_entry ours = {0};
	cleanup_credentials_entry struct credentials_entry docker = {0};
	int r;

	if ((r = auth_file_entry(registry, &ours, e)) < 0 ||
		(r = credentials_docker_entry(registry, &docker, e)) < 0)
		return r;
	memcpy(ret->now, docker.helper[0] ? docker.helper : docker.store, sizeof(ret->now));
	memcpy(ret->before, ours.helper, sizeof(ret->before));
	return 0;
}

static int store(const char *helper, const char *registry, const char *user, const char *secret,
	struct err *e)
{
	const char *key = credentials_host_key(registry);
	char path[PATH_MAX];
	int r = helper_store(helper, key, user, secret, e);

	if (r >= 0)
		return 0;
	credentials_docker_path(path);
	return helper_hint(helper, "store", key, path, e);
}

/* The new place has the secret. */
static void leave(const char *helper, const char *registry, struct output *output)
{
	struct err e;

	if (helper_erase(helper, credentials_host_key(registry), &e) < 0)
		output_notice(output, "%s; what it keeps of an earlier login stays there", e.what);
}

int login_registry(const char *registry, const char *user, int secret_fd, bool plain_http,
	struct output *output, json_t **ret, struct err *e)
{
	cleanup_secret_buf struct buf b = {0};
	struct keepers keepers = {0};
	const char *secret = NULL;
	int r;

	buf_init(&b, CREDENTIAL_MAX - 1);
	if ((r = check_registry(registry, e)) < 0 || (r = check_user(user, e)) < 0 ||
		(r = read_secret(secret_fd, &b, &secret, e)) < 0 ||
		(r = choose_keeper(registry, &keepers, e)) < 0 ||
		(r = login_ask(registry, user, secret, plain_http, output, e)) < 0)
		return r;
	const char *helper = keepers.now[0] ? keepers.now : NULL;
	if (helper && (r = store(helper, registry, user, secret, e)) < 0)
		return r;
	if ((r = auth_file_change(registry, helper ? NULL : user, secret, helper, e)) < 0)
		return r;
	if (keepers.before[0] && strcmp(keepers.before, keepers.now) != 0)
		leave(keepers.before, registry, output);
	*ret = json_pack("{s:b, s:s, s:s, s:s?, s:s}", "ok", 1, "registry", registry, "user", user,
		"helper", helper, "file", auth_file_path());
	return *ret ? 0 : err_errno(e, ENOMEM, "making the result");
}

static int erase(const char *helper, const char *registry, struct output *output, struct err *e)
{
	const char *key = credentials_host_key(registry);
	int r = helper_erase(helper, key, e);

	if (r < 0 && e->kind == ERR_NOT_FOUND) {
		output_notice(output, "%s; what it keeps stays there", e->what);
		return 0;
	}
	return r < 0 ? helper_hint(helper, "erase", key, auth_file_path(), e) : r;
}

/* Where docker's own credentials for the registry are, or "". asked: a helper that was just told to
 * forget them. */
static void find_remaining(
	const char *registry, const char *asked, struct output *output, char *ret, size_t size)
{
	cleanup_credentials_entry struct credentials_entry docker = {0};
	cleanup_credentials struct credentials c = {0};
	char path[PATH_MAX];
	struct err e;

	*ret = '\0';
	credentials_docker_path(path);
	if (credentials_docker_entry(registry, &docker, &e) < 0 ||
		credentials_of_entry(registry, path, &docker, &c, &e) < 0) {
		if (!c.failed_helper[0] || strcmp(c.failed_helper, asked) != 0)
			output_notice(output,
				"%s; a login of docker's may remain, and pulls use it", e.what);
	} else if (credentials_exist(&c)) {
		(void)snprintf(ret, size, "%s", path);
	}
}

int logout_registry(const char *registry, struct output *output, json_t **ret, struct err *e)
{
	cleanup_credentials_entry struct credentials_entry ours = {0};
	char remaining[PATH_MAX];
	int r;

	if ((r = check_registry(registry, e)) < 0 || (r = auth_file_entry(registry, &ours, e)) < 0)
		return r;
	bool there = ours.helper[0] || ours.in_auths;
	if (ours.helper[0] && (r = erase(ours.helper, registry, output, e)) < 0)
		return r;
	if (there && (r = auth_file_change(registry, NULL, NULL, NULL, e)) < 0)
		return r;
	find_remaining(registry, ours.helper, output, remaining, sizeof(remaining));
	*ret = json_pack("{s:b, s:s, s:b, s:s?}", "ok", 1, "registry", registry, "removed", there,
		"remaining", remaining[0] ? remaining : NULL);
	return *ret ? 0 : err_errno(e, ENOMEM, "making the result");
}
