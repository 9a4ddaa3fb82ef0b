/* SPDX-License-Identifier: Apache-2.0 */
#include "challenge.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NAME_MAX_BYTES 64

struct reader {
	const char *at, *end;
};

static bool is_token_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

static char peek(const struct reader *r)
{
	return r->at < r->end ? *r->at : '\0';
}

static void skip(struct reader *r, const char *set)
{
	while (r->at < r->end && *r->at && strchr(set, *r->at))
		r->at++;
}

/* Reads a token; false when there is none or it is too long. */
static bool read_token(struct reader *r, char *ret, size_t size)
{
	size_t n = 0;

	while (r->at < r->end && is_token_char(*r->at)) {
		if (n + 1 >= size)
			return false;
		ret[n++] = *r->at++;
	}
	ret[n] = '\0';
	return n > 0;
}

static bool put_printable(char *ret, size_t size, size_t *n, char c)
{
	if (c < 0x20 || c > 0x7e || *n + 1 >= size)
		return false;
	ret[(*n)++] = c;
	return true;
}

static bool read_quoted(struct reader *r, char *ret, size_t size)
{
	size_t n = 0;

	for (r->at++; r->at < r->end; r->at++) {
		if (*r->at == '"') {
			r->at++;
			ret[n] = '\0';
			return true;
		}
		if (*r->at == '\\' && ++r->at == r->end)
			return false;
		if (!put_printable(ret, size, &n, *r->at))
			return false;
	}
	return false;
}

/* Some registries send unquoted values that hold slashes and colons: read up to a comma. */
static bool read_value(struct reader *r, char *ret, size_t size)
{
	size_t n = 0;

	if (peek(r) == '"')
		return read_quoted(r, ret, size);
	while (r->at < r->end && *r->at != ',' && *r->at != ' ' && *r->at != '\t')
		if (!put_printable(ret, size, &n, *r->at++))
			return false;
	ret[n] = '\0';
	return true;
}

/* Whether a parameter ("name =") follows here, and not a new challenge ("scheme name=..."). */
static bool at_parameter(struct reader r)
{
	char name[NAME_MAX_BYTES];

	if (!read_token(&r, name, sizeof(name)))
		return false;
	skip(&r, " \t");
	return peek(&r) == '=';
}

static bool read_parameter(struct reader *r, struct challenge *c)
{
	char name[NAME_MAX_BYTES], ignored[1024];
	char *to = ignored;
	size_t size = sizeof(ignored);

	if (!read_token(r, name, sizeof(name)))
		return false;
	skip(r, " \t");
	r->at++; /* the '=' that at_parameter() saw */
	skip(r, " \t");
	if (strcasecmp(name, "realm") == 0) {
		to = c->realm;
		size = sizeof(c->realm);
	} else if (strcasecmp(name, "service") == 0) {
		to = c->service;
		size = sizeof(c->service);
	} else if (strcasecmp(name, "scope") == 0) {
		to = c->scope;
		size = sizeof(c->scope);
	} else if (strcasecmp(name, "error") == 0) {
		to = c->error;
		size = sizeof(c->error);
	}
	return read_value(r, to, size);
}

static enum challenge_scheme scheme_of(const char *name)
{
	if (strcasecmp(name, "Bearer") == 0)
		return CHALLENGE_BEARER;
	if (strcasecmp(name, "Basic") == 0)
		return CHALLENGE_BASIC;
	return CHALLENGE_NONE;
}

/* What follows the name of a scheme: its parameters, or one token68, which is skipped. */
static bool read_rest(struct reader *r, struct challenge *found)
{
	for (bool first = true;; first = false) {
		skip(r, first ? " \t" : " \t,");
		if (at_parameter(*r)) {
			if (!read_parameter(r, found))
				return found->scheme == CHALLENGE_NONE; /* not ours to judge */
		} else if (first && found->scheme == CHALLENGE_NONE) {
			while (r->at < r->end && *r->at != ',')
				r->at++;
			return true;
		} else {
			return true;
		}
	}
}

static int unreadable(struct challenge *c)
{
	c->unreadable = true;
	return -EPROTO;
}

int challenge_parse(struct challenge *c, const char *value, size_t len)
{
	struct reader r = {value, value + len};
	char name[NAME_MAX_BYTES];

	for (;;) {
		skip(&r, " \t,");
		if (r.at == r.end)
			return 0;
		if (!read_token(&r, name, sizeof(name)))
			return unreadable(c);
		struct challenge found = {.scheme = scheme_of(name)};
		if (!read_rest(&r, &found))
			return unreadable(c);
		found.unreadable = c->unreadable;
		if (found.scheme > c->scheme)
			*c = found;
	}
}

/* NAME in "repository:NAME:ACTION,..." with pull among the actions; it may hold a port's colon. */
static bool read_scope(const char *s, size_t len, const char **ret_name, size_t *ret_len)
{
	static const char type[] = "repository:";
	const size_t type_len = sizeof(type) - 1;
	const char *colon = memrchr(s, ':', len), *end = s + len;

	if (len <= type_len || memcmp(s, type, type_len) != 0 || colon <= s + type_len)
		return false;
	*ret_name = s + type_len;
	*ret_len = (size_t)(colon - *ret_name);
	for (const char *action = colon + 1; action < end;) {
		const char *comma = memchr(action, ',', (size_t)(end - action));
		size_t n = (size_t)((comma ? comma : end) - action);
		if (n == 4 && memcmp(action, "pull", 4) == 0)
			return true;
		action += n + 1;
	}
	return false;
}

void challenge_pull_scope(const char *scope, char *ret, size_t size)
{
	size_t used = 0, name_len;
	const char *name;

	*ret = '\0';
	for (const char *p = scope + strspn(scope, " "); *p; p += strspn(p, " ")) {
		size_t len = strcspn(p, " ");
		if (read_scope(p, len, &name, &name_len) && used + name_len + 18 < size)
			used += (size_t)snprintf(ret + used, size - used, "%srepository:%.*s:pull",
				used ? " " : "", (int)name_len, name);
		p += len;
	}
}
