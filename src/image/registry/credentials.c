/* SPDX-License-Identifier: Apache-2.0 */
#include "credentials.h"

#include "auth-file.h"
#include "credential-helper.h"
#include "origin.h"

#include "../../base/file.h"
#include "../../base/json.h"
#include "../../proto/reference.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>

#define CONFIG_MAX (1024u * 1024)

void credentials_release(struct credentials *c)
{
	secret_freep(&c->user);
	secret_freep(&c->password);
	secret_freep(&c->identity_token);
	secret_freep(&c->registry_token);
}

void credentials_entry_release(struct credentials_entry *x)
{
	credentials_release(&x->credentials);
}

char *credentials_basic(const char *user, const char *password)
{
	cleanup_secret char *plain = NULL;

	if (asprintf(&plain, "%s:%s", user, password) < 0) {
		plain = NULL;
		return NULL;
	}
	size_t len = strlen(plain);
	char *out = malloc(4 * ((len + 2) / 3) + 1);
	if (out)
		(void)EVP_EncodeBlock((unsigned char *)out, (const unsigned char *)plain, (int)len);
	return out;
}

/* As it is, in a URL or form, and as Basic. Out of memory counts as yes. */
static bool is_in(const char *text, const char *user, const char *secret)
{
	if (!secret || !*secret)
		return false;
	cleanup_secret char *escaped = http_escape(secret);
	cleanup_secret char *basic = credentials_basic(user ? user : "", secret);
	return !escaped || !basic || strstr(text, secret) || strstr(text, escaped) ||
	       strstr(text, basic);
}

bool credentials_are_in(const struct credentials *c, const char *text)
{
	return is_in(text, c->user, c->password) || is_in(text, c->user, c->identity_token) ||
	       is_in(text, c->user, c->registry_token);
}

void credentials_key_host(const char *key, char *ret, size_t size)
{
	const char *host = strstr(key, "://");

	char name[REFERENCE_NAME_MAX + 1];

	host = host ? host + 3 : key;
	size_t len = strcspn(host, "/");
	bool valid = reference_registry(host, len, name) == 0;
	(void)snprintf(
		ret, size, "%.*s", valid ? (int)sizeof(name) : (int)len, valid ? name : host);
}

const char *credentials_host_key(const char *registry)
{
	return strcmp(registry, "docker.io") == 0 ? "https://index.docker.io/v1/" : registry;
}

static int keep(char **to, const char *value, struct err *e)
{
	secret_freep(to);
	*to = strdup(value);
	return *to ? 0 : err_errno(e, ENOMEM, "cannot keep credentials");
}

static bool is_base64(const char *s, size_t len)
{
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");

	return len % 4 == 0 && len - n <= 2 && n > 0 && s[n + strspn(s + n, "=")] == '\0';
}

/* "auth": base64 of "USER:PASSWORD". */
static int decode_auth(const char *auth, struct credentials *c, struct err *e)
{
	size_t len = strlen(auth);
	cleanup_secret char *plain = calloc(1, len + 4);

	if (!plain)
		return err_errno(e, ENOMEM, "cannot keep credentials");
	if (!is_base64(auth, len) ||
		EVP_DecodeBlock((unsigned char *)plain, (const unsigned char *)auth, (int)len) < 0)
		return err_set(e, ERR_INVALID, 0, "\"auth\" is not base64");
	char *colon = strchr(plain, ':');
	if (!colon)
		return err_set(e, ERR_INVALID, 0, "\"auth\" is not USER:PASSWORD in base64");
	*colon = '\0';
	int r = keep(&c->user, plain, e);
	if (r == 0)
		r = keep(&c->password, colon + 1, e);
	explicit_bzero(plain, len + 4); /* the NUL in the middle would end the wiping */
	return r;
}

static int use_entry(const json_t *entry, struct credentials *c, struct err *e)
{
	const char *auth, *user, *password, *identity, *registry;
	int r;

	if ((r = json_get_str_or(entry, "auth", CREDENTIAL_MAX, "", &auth, e)) < 0 ||
		(r = json_get_str_or(entry, "username", CREDENTIAL_MAX, "", &user, e)) < 0 ||
		(r = json_get_str_or(entry, "password", CREDENTIAL_MAX, "", &password, e)) < 0 ||
		(r = json_get_str_or(entry, "identitytoken", CREDENTIAL_MAX, "", &identity, e)) <
			0 ||
		(r = json_get_str_or(entry, "registrytoken", CREDENTIAL_MAX, "", &registry, e)) < 0)
		return r;
	if (*auth)
		r = decode_auth(auth, c, e);
	else if (*user && (r = keep(&c->user, user, e)) == 0)
		r = keep(&c->password, password, e);
	if (r == 0 && *identity)
		r = keep(&c->identity_token, identity, e);
	if (r == 0 && *registry)
		r = keep(&c->registry_token, registry, e);
	/* docker keeps "USER:" beside an identity token. */
	if (r == 0 && c->password && !*c->password && credentials_exist(c) &&
		(c->identity_token || c->registry_token))
		secret_freep(&c->password);
	return r;
}

static int copy_helper(const char *name, char ret[static HELPER_NAME_SIZE], struct err *e)
{
	if (!helper_is_name(name))
		return err_set(e, ERR_INVALID, 0,
			"the name of a credential helper is not letters, digits, '-', '_' and '.'");
	(void)snprintf(ret, HELPER_NAME_SIZE, "%s", name);
	return 0;
}

static bool is_for(const char *key, const char *registry)
{
	char host[300];

	credentials_key_host(key, host, sizeof(host));
	return strcmp(host, registry) == 0;
}

static int parse_members(
	const json_t *config, const char *registry, struct credentials_entry *x, struct err *e)
{
	const char *key, *store;
	bool in_file = false;
	json_t *value;
	int r;

	json_object_foreach (json_object_get(config, "credHelpers"), key, value) {
		if (!is_for(key, registry) || !json_is_string(value))
			continue;
		in_file = *json_string_value(value) == '\0';
		if (!in_file && (r = copy_helper(json_string_value(value), x->helper, e)) < 0)
			return r;
	}
	json_object_foreach (json_object_get(config, "auths"), key, value) {
		if (!is_for(key, registry) || !json_is_object(value))
			continue;
		x->in_auths = true;
		if ((r = use_entry(value, &x->credentials, e)) < 0)
			return r;
	}
	if ((r = json_get_str_or(config, "credsStore", 256, "", &store, e)) < 0)
		return r;
	return *store && !in_file ? copy_helper(store, x->store, e) : 0;
}

int credentials_parse(const char *registry, const void *data, size_t len,
	struct credentials_entry *ret, struct err *e)
{
	cleanup_json *config = NULL;
	cleanup_credentials_entry struct credentials_entry x = {0};
	int r;

	if ((r = secret_json_parse(data, len, "it", &config, e)) < 0 ||
		(r = parse_members(config, registry, &x, e)) < 0)
		return r;
	*ret = x;
	x = (struct credentials_entry){0};
	return 0;
}

void credentials_docker_path(char ret[static PATH_MAX])
{
	const char *dir = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
	int n = 0;

	if (dir && *dir)
		n = snprintf(ret, PATH_MAX, "%s/config.json", dir);
	else if (home && *home)
		n = snprintf(ret, PATH_MAX, "%s/.docker/config.json", home);
	if (n <= 0 || n >= PATH_MAX)
		*ret = '\0';
}

int credentials_docker_entry(const char *registry, struct credentials_entry *ret, struct err *e)
{
	char path[PATH_MAX];
	cleanup_secret_buf struct buf b = {0};

	*ret = (struct credentials_entry){0};
	buf_init(&b, CONFIG_MAX);
	credentials_docker_path(path);
	int r = *path ? file_read(AT_FDCWD, path, &b) : -ENOENT;
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r < 0) {
		(void)err_errno(e, -r, "cannot read %.250s", path);
		return err_hint(e, "make it readable, or set DOCKER_CONFIG to another folder");
	}
	r = secret_is_blank(&b) ? 0 : credentials_parse(registry, b.data, b.len, ret, e);
	return r < 0 ? err_wrap(e, "%.250s", path) : 0;
}

static int ask_helper(const char *name, const char *registry, const char *file,
	struct credentials *ret, struct err *e)
{
	const char *key = credentials_host_key(registry);
	int r = helper_get(name, key, ret, e);

	if (r >= 0)
		return 0;
	(void)snprintf(ret->failed_helper, sizeof(ret->failed_helper), "%s", name);
	ret->is_others_fault = true;
	(void)helper_hint(name, "get", key, file, e);
	e->kind = ERR_UNAVAILABLE; /* what is asked for may well be there */
	return err_wrap(e, "%.150s", file);
}

int credentials_of_entry(const char *registry, const char *file, struct credentials_entry *x,
	struct credentials *ret, struct err *e)
{
	int r = 0;

	if (x->helper[0] &&
		((r = ask_helper(x->helper, registry, file, ret, e)) < 0 || credentials_exist(ret)))
		return r;
	if (credentials_exist(&x->credentials)) {
		*ret = x->credentials;
		(void)snprintf(ret->from, sizeof(ret->from), "%.290s", file);
		x->credentials = (struct credentials){0};
		return 0;
	}
	return x->store[0] ? ask_helper(x->store, registry, file, ret, e) : 0;
}

/* Whether credentials_of_entry() would ask a helper. */
static bool wants_helper(const struct credentials_entry *x)
{
	return x->helper[0] || (x->store[0] && !credentials_exist(&x->credentials));
}

int credentials_find(const char *registry, bool ask_helpers, struct credentials *ret, struct err *e)
{
	cleanup_credentials_entry struct credentials_entry ours = {0};
	cleanup_credentials_entry struct credentials_entry docker = {0};
	char path[PATH_MAX];
	int r;

	*ret = (struct credentials){0};
	if ((r = auth_file_entry(registry, &ours, e)) < 0)
		return r;
	if (!ask_helpers && wants_helper(&ours))
		return 1;
	if ((r = credentials_of_entry(registry, auth_file_path(), &ours, ret, e)) < 0 ||
		credentials_exist(ret))
		return r;
	if ((r = credentials_docker_entry(registry, &docker, e)) < 0) {
		ret->is_others_fault = true;
		return r;
	}
	if (!ask_helpers && wants_helper(&docker))
		return 1;
	credentials_docker_path(path);
	return credentials_of_entry(registry, path, &docker, ret, e);
}
