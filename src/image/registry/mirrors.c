/* SPDX-License-Identifier: Apache-2.0 */
#include "mirrors.h"

#include "origin.h"

#include "../../base/text.h"
#include "../../proto/reference.h"

#include <stdio.h>
#include <string.h>

#define BLANK " \t\n"

struct entry {
	const char *at;
	size_t len;
};

/* Names the entry, without what may be a password in its address. */
static int refuse(const struct entry *x, const char *why, struct err *e)
{
	char entry[120], shown[160];
	const char *user = memchr(x->at, '@', x->len);
	const char *equals = memchr(x->at, '=', x->len);
	size_t len = !user ? x->len : equals ? (size_t)(equals + 1 - x->at) : 0;

	(void)snprintf(entry, sizeof(entry), "%.*s%s", (int)(len < 100 ? len : 100), x->at,
		user ? "..." : "");
	text_escape(entry, shown, sizeof(shown));
	(void)err_set(e, ERR_INVALID, 0, "KOSA8_REGISTRY_MIRROR: \"%s\": %s", shown, why);
	return err_hint(e, "as in KOSA8_REGISTRY_MIRROR=docker.io=https://mirror.example.com");
}

static struct entry trimmed(const char *at, size_t len)
{
	while (len > 0 && strchr(BLANK, *at)) {
		at++;
		len--;
	}
	while (len > 0 && strchr(BLANK, at[len - 1]))
		len--;
	return (struct entry){at, len};
}

static int read_url(const struct entry *x, const char *url, size_t len,
	char ret[static MIRROR_URL_SIZE], struct err *e)
{
	char origin[HTTP_ORIGIN_MAX];
	struct err ignored;

	while (len > 0 && url[len - 1] == '/')
		len--;
	if (len >= MIRROR_URL_SIZE)
		return refuse(x, "its address is too long", e);
	(void)snprintf(ret, MIRROR_URL_SIZE, "%.*s", (int)len, url);
	if (http_origin(ret, origin, &ignored) < 0 || strpbrk(ret, "?# "))
		return refuse(x, "its address is not http://HOST or https://HOST", e);
	return 0;
}

/* Every entry is read, whichever registry it is for: what is misspelt would else be passed over,
 * and the registry asked that was to be spared. */
static int take_entry(
	const struct entry *x, const char *registry, struct mirrors *ret, struct err *e)
{
	char name[REFERENCE_NAME_MAX + 1], url[MIRROR_URL_SIZE];
	const char *equals = memchr(x->at, '=', x->len);
	int r;

	if (!equals)
		return refuse(x, "not REGISTRY=URL", e);
	if (reference_registry(x->at, (size_t)(equals - x->at), name) < 0)
		return refuse(x, "what stands before '=' is not the name of a registry", e);
	r = read_url(x, equals + 1, (size_t)(x->at + x->len - equals - 1), url, e);
	if (r < 0 || strcmp(name, registry) != 0)
		return r;
	if (ret->len >= MIRRORS_MAX)
		return err_set(e, ERR_LIMIT, 0, "KOSA8_REGISTRY_MIRROR: more than %d mirrors of %s",
			MIRRORS_MAX, registry);
	memcpy(ret->urls[ret->len++], url, sizeof(url));
	return 0;
}

int mirrors_parse(const char *list, const char *registry, struct mirrors *ret, struct err *e)
{
	ret->len = 0;
	for (const char *p = list; p && *p;) {
		size_t n = strcspn(p, ",");
		const struct entry x = trimmed(p, n);
		int r = x.len > 0 ? take_entry(&x, registry, ret, e) : 0;
		if (r < 0)
			return r;
		p += n + (p[n] == ',');
	}
	return 0;
}
