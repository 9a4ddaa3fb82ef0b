/* SPDX-License-Identifier: Apache-2.0 */
#include "auth.h"

#include "http.h"

#include "../base/file.h"
#include "../base/json.h"
#include "../base/strv.h"
#include "../base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_MAX (1024u * 1024)
#define CREDENTIAL_MAX 8192

static void free_secret(char **s)
{
	if (*s)
		explicit_bzero(*s, strlen(*s));
	free(*s);
	*s = NULL;
}

void auth_release(struct auth *a)
{
	free_secret(&a->basic);
	free_secret(&a->authorization);
}

/* The key of an "auths" member without scheme and path: https://index.docker.io/v1/ and such. */
static void key_host(const char *key, char *ret, size_t size)
{
	const char *host = strstr(key, "://");

	host = host ? host + 3 : key;
	(void)snprintf(ret, size, "%.*s", (int)strcspn(host, "/"), host);
	if (strcmp(ret, "index.docker.io") == 0 || strcmp(ret, "registry-1.docker.io") == 0)
		(void)snprintf(ret, size, "docker.io");
}

static bool is_base64(const char *s)
{
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");

	return n > 0 && s[n + strspn(s + n, "=")] == '\0';
}

/* RFC 4648 section 4. */
static void put_base64(char *out, const unsigned char *in, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < len; i += 3, out += 4) {
		size_t n = len - i < 3 ? len - i : 3;
		uint32_t v = (uint32_t)in[i] << 16;
		v |= n > 1 ? (uint32_t)in[i + 1] << 8 : 0;
		v |= n > 2 ? in[i + 2] : 0;
		for (size_t k = 0; k < 4; k++)
			out[k] = k <= n ? digits[v >> (18 - 6 * k) & 63] : '=';
	}
	*out = '\0';
}

static char *encode_base64(const char *user, const char *password)
{
	char *plain = NULL;

	if (asprintf(&plain, "%s:%s", user, password) < 0)
		return NULL;
	size_t len = strlen(plain);
	char *out = malloc(4 * ((len + 2) / 3) + 1);
	if (out)
		put_base64(out, (const unsigned char *)plain, len);
	explicit_bzero(plain, len);
	free(plain);
	return out;
}

static int use_entry(const json_t *entry, struct auth *a, struct err *e)
{
	const char *auth, *user, *password;
	cleanup_str char *encoded = NULL;
	int r;

	if ((r = json_get_str_or(entry, "auth", CREDENTIAL_MAX, "", &auth, e)) < 0 ||
		(r = json_get_str_or(entry, "username", CREDENTIAL_MAX, "", &user, e)) < 0 ||
		(r = json_get_str_or(entry, "password", CREDENTIAL_MAX, "", &password, e)) < 0)
		return r;
	if (*auth == '\0' && *user) {
		encoded = encode_base64(user, password);
		if (!encoded)
			return err_errno(e, ENOMEM, "cannot keep credentials");
		auth = encoded;
	}
	if (*auth == '\0') /* docker writes {} for hosts whose secret a helper keeps */
		return 0;
	if (!is_base64(auth))
		return err_set(e, ERR_INVALID, 0, "\"auth\" is not base64");
	free_secret(&a->basic);
	if (asprintf(&a->basic, "Basic %s", auth) < 0) {
		a->basic = NULL;
		return err_errno(e, ENOMEM, "cannot keep credentials");
	}
	return 0;
}

int auth_parse_config(
	const char *registry, const void *data, size_t len, struct auth *ret, struct err *e)
{
	cleanup_json *config = NULL;
	struct auth a = {0};
	const char *key;
	json_t *entry;
	int r;

	if ((r = json_parse_object(data, len, "it", &config, e)) < 0)
		return r;
	a.has_helpers =
		json_object_get(config, "credsStore") || json_object_get(config, "credHelpers");
	json_object_foreach (json_object_get(config, "auths"), key, entry) {
		char host[300];
		key_host(key, host, sizeof(host));
		if (strcmp(host, registry) != 0 || !json_is_object(entry))
			continue;
		if ((r = use_entry(entry, &a, e)) < 0) {
			auth_release(&a);
			return r;
		}
	}
	*ret = a;
	return 0;
}

int auth_load(const char *registry, struct auth *ret, struct err *e)
{
	const char *dir = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
	char path[PATH_MAX];
	cleanup_buf struct buf b = {0};
	int n, r;

	buf_init(&b, CONFIG_MAX);
	*ret = (struct auth){0};
	if (dir && *dir)
		n = snprintf(path, sizeof(path), "%s/config.json", dir);
	else if (home && *home)
		n = snprintf(path, sizeof(path), "%s/.docker/config.json", home);
	else
		return 0;
	if (n < 0 || (size_t)n >= sizeof(path))
		return 0;
	r = file_read(AT_FDCWD, path, &b);
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r < 0)
		return err_errno(e, -r, "cannot read %s", path);
	r = auth_parse_config(registry, b.data, b.len, ret, e);
	if (b.data)
		explicit_bzero(b.data, b.len);
	return r < 0 ? err_wrap(e, "%s", path) : 0;
}

static int set_authorization(struct auth *a, const char *scheme, const char *value, struct err *e)
{
	char *text = NULL;

	if (asprintf(&text, "%s%s", scheme, value) < 0)
		return err_errno(e, ENOMEM, "cannot keep a token");
	free_secret(&a->authorization);
	a->authorization = text;
	a->generation++;
	return 0;
}

static int denied(const struct auth *a, struct err *e)
{
	(void)err_set(e, ERR_DENIED, 0, "access is refused (401)");
	if (a->basic)
		return err_hint(e, "`docker login`: the credentials in docker's config.json are "
				   "not accepted");
	if (a->has_helpers)
		return err_hint(e, "put the credentials into \"auths\" of docker's config.json: "
				   "credential helpers are not asked");
	return err_hint(e, "check the name; a private image needs `docker login`");
}

static int token_url(const struct challenge *c, const char *scope, char **ret, struct err *e)
{
	cleanup_str char *service = http_escape(c->service);
	cleanup_str char *asked = http_escape(c->scope[0] ? c->scope : scope);
	char origin[HTTP_ORIGIN_MAX];
	int r;

	if ((r = http_origin(c->realm, origin, e)) < 0)
		return err_wrap(e, "the registry names as its token server");
	if (strchr(c->realm, '#'))
		return err_set(e, ERR_PROTOCOL, 0, "the token server's address holds a '#'");
	char *url = NULL;
	if (!service || !asked ||
		asprintf(&url, "%s%s%s%s%sscope=%s", c->realm, strchr(c->realm, '?') ? "&" : "?",
			c->service[0] ? "service=" : "", c->service[0] ? service : "",
			c->service[0] ? "&" : "", asked) < 0)
		return err_errno(e, ENOMEM, "cannot ask for a token");
	*ret = url;
	return 0;
}

int auth_respond(
	struct auth *a, const struct challenge *c, const char *scope, char **ret_url, struct err *e)
{
	if (c->scheme == CHALLENGE_BEARER && c->realm[0])
		return token_url(c, scope, ret_url, e);
	bool tried = a->basic && a->authorization && strcmp(a->basic, a->authorization) == 0;
	if (c->scheme != CHALLENGE_BASIC || !a->basic || tried)
		return denied(a, e);
	*ret_url = NULL;
	return set_authorization(a, "", a->basic, e);
}

int auth_accept_token(struct auth *a, const void *data, size_t len, struct err *e)
{
	cleanup_json *answer = NULL;
	const char *token;
	int r;

	if ((r = json_parse_object(data, len, "the token server's answer", &answer, e)) < 0 ||
		(r = json_get_str_or(answer, "token", AUTH_TOKEN_MAX, "", &token, e)) < 0)
		return r;
	if (*token == '\0' &&
		(r = json_get_str_or(answer, "access_token", AUTH_TOKEN_MAX, "", &token, e)) < 0)
		return r;
	/* It becomes a header's value: no byte may end that. */
	for (const char *p = token; *p; p++)
		if (*p <= 0x20 || *p > 0x7e)
			token = "";
	if (*token == '\0')
		return err_set(e, ERR_PROTOCOL, 0, "the token server sent no usable token");
	return set_authorization(a, "Bearer ", token, e);
}
