/* SPDX-License-Identifier: Apache-2.0 */
#include "strv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char **strv_new(void)
{
	return calloc(1, sizeof(char *));
}

void strv_free(char **v)
{
	for (char **p = v; p && *p; p++)
		free(*p);
	free(v);
}

void strv_freep(char ***v)
{
	strv_free(*v);
	*v = NULL;
}

char **strv_take(char ***v)
{
	char **taken = *v;

	*v = NULL;
	return taken;
}

size_t strv_len(char *const *v)
{
	size_t n = 0;

	while (v && v[n])
		n++;
	return n;
}

/* Takes ownership of s, also on failure. */
static int add_taken(char ***v, char *s)
{
	size_t n = strv_len(*v);
	char **grown = s ? realloc(*v, (n + 2) * sizeof(char *)) : NULL;

	if (!grown) {
		free(s);
		return -ENOMEM;
	}
	grown[n] = s;
	grown[n + 1] = NULL;
	*v = grown;
	return 0;
}

int strv_add(char ***v, const char *s)
{
	return add_taken(v, strdup(s));
}

int strv_addf(char ***v, const char *fmt, ...)
{
	char *s = NULL;
	va_list ap;

	va_start(ap, fmt);
	int n = vasprintf(&s, fmt, ap);
	va_end(ap);
	return n < 0 ? -ENOMEM : add_taken(v, s);
}

static size_t key_len(const char *assignment)
{
	return strcspn(assignment, "=");
}

int strv_env_set(char ***v, const char *assignment)
{
	size_t len = key_len(assignment);

	for (char **p = *v; p && *p; p++) {
		if (key_len(*p) != len || strncmp(*p, assignment, len) != 0)
			continue;
		char *copy = strdup(assignment);
		if (!copy)
			return -ENOMEM;
		free(*p);
		*p = copy;
		return 0;
	}
	return strv_add(v, assignment);
}

const char *strv_env_get(char *const *v, const char *key)
{
	size_t len = strlen(key);

	for (; v && *v; v++)
		if (strncmp(*v, key, len) == 0 && (*v)[len] == '=')
			return *v + len + 1;
	return NULL;
}
