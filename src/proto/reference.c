/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include "../base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DIGEST_PREFIX "sha256:"
#define DIGEST_HEX 64

static bool is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
	return is_lower(c) || is_digit(c) || (c >= 'A' && c <= 'Z');
}

static bool is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f');
}

bool reference_is_digest(const char *s)
{
	const size_t prefix = sizeof(DIGEST_PREFIX) - 1;

	if (!text_starts_with(s, DIGEST_PREFIX))
		return false;
	for (size_t i = 0; i < DIGEST_HEX; i++)
		if (!is_hex(s[prefix + i])) /* stops at a NUL too */
			return false;
	return s[prefix + DIGEST_HEX] == '\0';
}

/* Says what is wrong with the name; the text is escaped and cut, as it may hold anything. */
static int invalid(struct err *e, const char *text, const char *why)
{
	char shown[120];

	text_escape(text, shown, sizeof(shown));
	return err_set(e, ERR_INVALID, 0, "\"%s\" is not an image name: %s", shown, why);
}

/* [0-9]{1,5} after the colon. */
static bool is_port(const char *s, size_t len)
{
	if (len < 1 || len > 5)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!is_digit(s[i]))
			return false;
	return true;
}

/* Labels of letters, digits and inner hyphens, joined by dots. */
static bool is_host_name(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		bool first = i == 0 || s[i - 1] == '.';
		bool last = i + 1 == len || s[i + 1] == '.';
		if (is_alnum(s[i]) || (s[i] == '-' && !first && !last))
			continue;
		if (s[i] == '.' && !first && i + 1 < len)
			continue;
		return false;
	}
	return len > 0;
}

static bool is_registry(const char *s)
{
	size_t len = strlen(s);

	if (s[0] == '[') {
		const char *end = strchr(s, ']');
		if (!end || end == s + 1 || end - s > 46)
			return false;
		for (const char *p = s + 1; p < end; p++)
			if (!is_hex(*p) && !(*p >= 'A' && *p <= 'F') && *p != ':')
				return false;
		return end[1] == '\0' || (end[1] == ':' && is_port(end + 2, strlen(end + 2)));
	}
	const char *colon = strchr(s, ':');
	if (colon && !is_port(colon + 1, len - (size_t)(colon + 1 - s)))
		return false;
	return is_host_name(s, colon ? (size_t)(colon - s) : len);
}

int reference_registry(const char *s, size_t len, char ret[static REFERENCE_NAME_MAX + 1])
{
	char name[REFERENCE_NAME_MAX + 1];

	if (len >= sizeof(name))
		return -EINVAL;
	for (size_t i = 0; i < len; i++)
		name[i] = s[i] >= 'A' && s[i] <= 'Z' ? (char)(s[i] - 'A' + 'a') : s[i];
	name[len] = '\0';
	if (!is_registry(name) || (strcmp(name, "localhost") != 0 && !strpbrk(name, ".:")))
		return -EINVAL;
	bool docker =
		strcmp(name, "index.docker.io") == 0 || strcmp(name, "registry-1.docker.io") == 0;
	(void)snprintf(ret, REFERENCE_NAME_MAX + 1, "%s", docker ? "docker.io" : name);
	return 0;
}

/* [a-z0-9]+ joined by one of "." "_" "__" or any number of "-". Returns where it ends. */
static const char *skip_component(const char *s)
{
	for (;;) {
		const char *start = s;
		while (is_lower(*s) || is_digit(*s))
			s++;
		if (s == start)
			return NULL;
		const char *sep = s;
		if (*s == '.')
			s++;
		else if (*s == '_')
			s += s[1] == '_' ? 2 : 1;
		else
			while (*s == '-')
				s++;
		if (s == sep)
			return s;
	}
}

static bool is_repository(const char *s)
{
	for (;;) {
		s = skip_component(s);
		if (!s)
			return false;
		if (*s == '\0')
			return true;
		if (*s++ != '/')
			return false;
	}
}

/* Of Docker Hub, where the repository is all that is typed: sha256:0123456789ab would be a tag of
 * the one, and 64 digits the whole digest. Refused, as docker does. */
static bool is_like_digest(const char *repository)
{
	const char *s = text_starts_with(repository, "library/") ? repository + strlen("library/")
								 : repository;

	return strcmp(s, "sha256") == 0 ||
	       (strlen(s) == DIGEST_HEX && strspn(s, "0123456789abcdef") == DIGEST_HEX);
}

static bool is_tag(const char *s)
{
	if (!is_alnum(*s) && *s != '_')
		return false;
	size_t n = 0;
	for (; s[n]; n++)
		if (!is_alnum(s[n]) && s[n] != '_' && s[n] != '.' && s[n] != '-')
			return false;
	return n <= REFERENCE_TAG_MAX;
}

/* Whether the text before the first slash names a registry. */
static bool looks_like_registry(const char *s, size_t len)
{
	if (len == 9 && memcmp(s, "localhost", 9) == 0)
		return true;
	for (size_t i = 0; i < len; i++)
		if (s[i] == '.' || s[i] == ':' || (s[i] >= 'A' && s[i] <= 'Z'))
			return true;
	return false;
}

/* The digest, then the tag, are cut off from the end of name. */
static int cut_suffixes(char *name, const char *text, struct reference *ret, struct err *e)
{
	char *at = strchr(name, '@');

	if (at) {
		if (!reference_is_digest(at + 1))
			return invalid(e, text,
				"after @ comes sha256: and 64 lower-case hexadecimal digits");
		(void)snprintf(ret->digest, sizeof(ret->digest), "%s", at + 1);
		*at = '\0';
	}
	char *slash = strrchr(name, '/'), *colon = strrchr(name, ':');
	if (!colon || (slash && colon < slash))
		return 0;
	if (!is_tag(colon + 1))
		return invalid(e, text,
			"a tag is up to 128 letters, digits, '_', '.' and '-', and begins with "
			"none of the last two");
	(void)snprintf(ret->tag, sizeof(ret->tag), "%s", colon + 1);
	*colon = '\0';
	return 0;
}

static int wrong_repository(struct err *e, const char *text, const char *repository)
{
	char lower[REFERENCE_NAME_MAX + 1];
	size_t i;

	(void)invalid(e, text, "the name before the tag is not valid");
	for (i = 0; repository[i] && i < REFERENCE_NAME_MAX; i++)
		lower[i] = repository[i] >= 'A' && repository[i] <= 'Z'
				   ? (char)(repository[i] - 'A' + 'a')
				   : repository[i];
	lower[i] = '\0';
	if (strcmp(lower, repository) != 0 && is_repository(lower))
		return err_hint(e, "lower case: %s", lower);
	return err_hint(e, "a name such as python:3.12-slim or registry.example.com/team/app:1.0");
}

/* Letters alone, and some of them upper case: in lower case it would be part of the repository. */
static int wrong_registry(struct err *e, const char *text, const char *name, size_t len)
{
	(void)invalid(e, text,
		"the registry's name before the first '/' is not HOST or HOST:PORT, with a dot or "
		"a port");
	if (!is_host_name(name, len))
		return err_code(e);
	return err_hint(
		e, "a repository is written in lower case; a registry as %.*s:443", (int)len, name);
}

static int split_name(const char *name, const char *text, struct reference *ret, struct err *e)
{
	const char *slash = strchr(name, '/');
	const char *repository = name;

	(void)snprintf(ret->registry, sizeof(ret->registry), "docker.io");
	if (strlen(name) > REFERENCE_NAME_MAX)
		return invalid(e, text, "the name without the tag is longer than 255 bytes");
	if (slash && looks_like_registry(name, (size_t)(slash - name))) {
		repository = slash + 1;
		if (reference_registry(name, (size_t)(slash - name), ret->registry) < 0)
			return wrong_registry(e, text, name, (size_t)(slash - name));
	}
	if (!is_repository(repository))
		return wrong_repository(e, text, repository);
	if (strcmp(ret->registry, "docker.io") == 0 && is_like_digest(repository))
		return invalid(e, text, "it could be meant as a digest");
	bool official = strcmp(ret->registry, "docker.io") == 0 && !strchr(repository, '/');
	const char *below = official ? "library/" : "";
	int n = snprintf(ret->repository, sizeof(ret->repository), "%s%s", below, repository);
	if (n < 0 || strlen(ret->registry) + 1 + (size_t)n > REFERENCE_NAME_MAX)
		return invalid(e, text, "the name without the tag is longer than 255 bytes");
	return 0;
}

int reference_parse(const char *text, struct reference *ret, struct err *e)
{
	char name[REFERENCE_NAME_MAX + 1 + REFERENCE_TAG_MAX + 1 + REFERENCE_DIGEST_SIZE + 1];
	struct reference r = {0};
	int n = snprintf(name, sizeof(name), "%s", text);
	int x;

	if (*text == '\0')
		return err_set(e, ERR_INVALID, 0, "the image name is empty");
	if (n < 0 || (size_t)n >= sizeof(name))
		return invalid(e, text, "it is too long");
	const char *scheme = strstr(text, "://");
	if (scheme) {
		(void)invalid(e, text, "it is an address, not a name");
		return err_hint(e, "without %.*s",
			(int)(scheme - text < 20 ? scheme - text + 3 : 23), text);
	}
	if ((x = cut_suffixes(name, text, &r, e)) < 0)
		return x;
	if ((x = split_name(name, text, &r, e)) < 0)
		return x;
	if (r.tag[0] == '\0' && r.digest[0] == '\0')
		(void)snprintf(r.tag, sizeof(r.tag), "latest");
	*ret = r;
	return 0;
}

void reference_canonical(const struct reference *r, char ret[static REFERENCE_CANONICAL_SIZE])
{
	(void)snprintf(ret, REFERENCE_CANONICAL_SIZE, "%s/%s%s%s%s%s", r->registry, r->repository,
		r->tag[0] ? ":" : "", r->tag, r->digest[0] ? "@" : "", r->digest);
}
