/* SPDX-License-Identifier: Apache-2.0 */
#include "mirrors.h"

#include "origin.h"

#include <stdio.h>
#include <string.h>

static int add(struct mirrors *m, const char *registry, const char *url, size_t len, struct err *e)
{
	char origin[HTTP_ORIGIN_MAX], *to = m->urls[m->len];

	while (len > 0 && url[len - 1] == '/')
		len--;
	if (m->len >= MIRRORS_MAX)
		return err_set(e, ERR_LIMIT, 0, "KOSA8_REGISTRY_MIRROR: more than %d mirrors of %s",
			MIRRORS_MAX, registry);
	if (len < MIRROR_URL_SIZE)
		(void)snprintf(to, MIRROR_URL_SIZE, "%.*s", (int)len, url);
	if (len >= MIRROR_URL_SIZE || http_origin(to, origin, e) < 0 || strpbrk(to, "?#"))
		return err_set(e, ERR_INVALID, 0,
			"KOSA8_REGISTRY_MIRROR: not http://HOST or https://HOST for %s", registry);
	m->len++;
	return 0;
}

int mirrors_parse(const char *list, const char *registry, struct mirrors *ret, struct err *e)
{
	size_t len = strlen(registry);

	ret->len = 0;
	for (const char *p = list; p && *p;) {
		size_t n = strcspn(p, ",");
		if (n > len && strncmp(p, registry, len) == 0 && p[len] == '=') {
			int r = add(ret, registry, p + len + 1, n - len - 1, e);
			if (r < 0)
				return r;
		}
		p += n + (p[n] == ',');
	}
	return 0;
}
