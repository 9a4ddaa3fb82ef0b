/* SPDX-License-Identifier: Apache-2.0 */
#include "copy-place.h"

#include "../base/strv.h"
#include "../base/text.h"
#include "../proto/agent-session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORKSPACE "/workspace"

void copy_place_release(struct copy_place *p)
{
	free(p->sandbox);
	free(p->container);
	free(p->path);
	*p = (struct copy_place){0};
}

static int out_of_memory(struct err *e)
{
	return err_set(e, ERR_IO, ENOMEM, "out of memory");
}

/* Below the workspace: relative, or absolute there. */
static int workspace_path(const char *text, const char **ret, struct err *e)
{
	size_t len = strlen(WORKSPACE);

	if (text[0] == '/') {
		if (strncmp(text, WORKSPACE, len) != 0 || (text[len] != '/' && text[len] != '\0')) {
			(void)err_set(e, ERR_INVALID, 0,
				"%.150s is not in the sandbox's " WORKSPACE
				", which is all that it has without a container",
				text);
			return err_hint(e, "NAME/CONTAINER:PATH");
		}
		text += len;
		text += strspn(text, "/");
	}
	*ret = *text ? text : ".";
	return 0;
}

static int check_container(const char *name, struct err *e)
{
	if (*name && strlen(name) < AGENT_REF_SIZE && text_is_utf8(name, strlen(name)) &&
		!strchr(name, '/'))
		return 0;
	return err_set(e, ERR_INVALID, 0, "\"%.100s\" cannot name a container", name);
}

static int parse_guest(const char *text, const char *colon, struct copy_place *p, struct err *e)
{
	char *slash;
	const char *path = colon + 1;
	int r = 0;

	p->side = COPY_GUEST;
	p->sandbox = strndup(text, (size_t)(colon - text));
	if (!p->sandbox)
		return out_of_memory(e);
	slash = strchr(p->sandbox, '/');
	if (slash)
		*slash = '\0';
	if (!text_is_sandbox_name(p->sandbox)) {
		(void)err_set(e, ERR_INVALID, 0, "\"%.100s\" cannot name a sandbox", p->sandbox);
		return err_hint(e, "./PATH for a path of this host that has a colon");
	}
	if (slash && (r = check_container(slash + 1, e)) < 0)
		return r;
	p->container = strdup(slash ? slash + 1 : "");
	if (!slash && (r = workspace_path(path, &path, e)) < 0)
		return r;
	if (asprintf(&p->path, "%s%s", slash && path[0] != '/' ? "/" : "", path) < 0) {
		p->path = NULL;
		return out_of_memory(e);
	}
	return p->container ? 0 : out_of_memory(e);
}

int copy_place_parse(const char *text, struct copy_place *ret, struct err *e)
{
	const char *colon = strchr(text, ':');
	struct copy_place p = {.side = strcmp(text, "-") == 0 ? COPY_TAR : COPY_HOST};
	int r = 0;

	if (colon && text[0] != '/' && text[0] != '.')
		r = parse_guest(text, colon, &p, e);
	else if (!(p.path = strdup(text)))
		r = out_of_memory(e);
	else if (!*text)
		r = err_set(e, ERR_INVALID, 0, "a path is empty");
	if (r < 0)
		copy_place_release(&p);
	else
		*ret = p;
	return r;
}

bool copy_place_is_contents(const struct copy_place *p)
{
	size_t len = strlen(p->path);

	if (len == 0 || strspn(p->path, "/") == len || strcmp(p->path, ".") == 0)
		return true;
	return len >= 2 && strcmp(p->path + len - 2, "/.") == 0;
}

int copy_place_name(const struct copy_place *p, char **ret, struct err *e)
{
	cleanup_str char *full = NULL;
	const char *path = p->path;

	/* What a path of this host that ends in .. leads to has a name, too. */
	size_t len = strlen(path);
	if (p->side == COPY_HOST && len >= 2 && strcmp(path + len - 2, "..") == 0 &&
		(full = realpath(path, NULL)))
		path = full;
	len = strlen(path);
	while (len > 0 && path[len - 1] == '/')
		len--;
	size_t begin = len;
	while (begin > 0 && path[begin - 1] != '/')
		begin--;
	size_t n = len - begin;
	if (n == 0 || n > 255 || (n == 2 && memcmp(path + begin, "..", 2) == 0))
		return err_set(e, ERR_INVALID, 0, "%.200s names no file", p->path);
	*ret = strndup(path + begin, n);
	return *ret ? 0 : out_of_memory(e);
}
