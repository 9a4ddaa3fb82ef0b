/* SPDX-License-Identifier: Apache-2.0 */
#include "login.h"

#include "auth-file.h"
#include "credential-helper.h"
#include "login-ask.h"

#include "../../base/fd.h"
#include "../../base/log.h"
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

/* Who is to keep the secret: "" for auth.json. */
static int choose_helper(const char *registry, char ret[static HELPER_NAME_SIZE], struct err *e)
{
	cleanup_credentials_entry struct credentials_entry ours = {0};
	cleanup_credentials_entry struct credentials_entry docker = {0};
	int r;

	if ((r = auth_file_entry(registry, &ours, e)) < 0 ||
		(r = credentials_docker_entry(registry, &docker, e)) < 0)
		return r;
	const char *found[] = {ours.helper, ours.store, docker.helper, docker.store, ""};
	size_t i = 0;
	while (i < 4 && !found[i][0])
		i++;
	memcpy(ret, found[i], strlen(found[i]) + 1);
	return 0;
}

int login_registry(const char *registry, const char *user, int secret_fd, bool plain_http,
	struct output *output, json_t **ret, struct err *e)
{
	cleanup_secret_buf struct buf b = {0};
	char helper[HELPER_NAME_SIZE];
	const char *secret = NULL;
	int r;

	buf_init(&b, CREDENTIAL_MAX - 1);
	if ((r = check_registry(registry, e)) < 0 || (r = check_user(user, e)) < 0 ||
		(r = read_secret(secret_fd, &b, &secret, e)) < 0 ||
		(r = choose_helper(registry, helper, e)) < 0 ||
		(r = login_ask(registry, user, secret, plain_http, output, e)) < 0)
		return r;
	if (helper[0] &&
		(r = helper_store(helper, credentials_host_key(registry), user, secret, e)) < 0)
		return r;
	r = auth_file_change(
		registry, helper[0] ? NULL : user, secret, helper[0] ? helper : NULL, e);
	if (r < 0)
		return r;
	*ret = json_pack("{s:b, s:s, s:s, s:s?, s:s}", "ok", 1, "registry", registry, "user", user,
		"helper", helper[0] ? helper : NULL, "file", auth_file_path());
	return *ret ? 0 : err_errno(e, ENOMEM, "making the result");
}

static int erase(const char *helper, const char *registry, struct output *output, struct err *e)
{
	int r = helper_erase(helper, credentials_host_key(registry), e);

	if (r < 0 && e->kind == ERR_NOT_FOUND) {
		output_notice(output, "%s; what it keeps stays there", e->what);
		return 0;
	}
	return r;
}

/* Where docker's own credentials for the registry are, or "". */
static void find_remaining(const char *registry, char *ret, size_t size)
{
	cleanup_credentials_entry struct credentials_entry docker = {0};
	cleanup_credentials struct credentials c = {0};
	char path[PATH_MAX];
	struct err e;

	*ret = '\0';
	credentials_docker_path(path);
	if (credentials_docker_entry(registry, &docker, &e) < 0 ||
		credentials_of_entry(registry, path, &docker, &c, &e) < 0)
		log_debug("docker's credentials: %s", e.what);
	else if (credentials_exist(&c))
		(void)snprintf(ret, size, "%s", path);
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
	find_remaining(registry, remaining, sizeof(remaining));
	*ret = json_pack("{s:b, s:s, s:b, s:s?}", "ok", 1, "registry", registry, "removed", there,
		"remaining", remaining[0] ? remaining : NULL);
	return *ret ? 0 : err_errno(e, ENOMEM, "making the result");
}
