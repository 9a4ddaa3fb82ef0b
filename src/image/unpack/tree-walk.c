/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in an image: checked on the way in, then walked with symbolic links followed inside the
 * tree, never outside it: there is no outside here.
 *
 * While walking, components that are not there are only remembered (pending): a ".." of a link's
 * target takes the last of them back, and what is left at the end is made, or is not found.
 */
#include "tree.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

struct walk {
	struct tree *t;
	struct tree_node *dir;
	struct tree_part pending[UNPACK_DEPTH_MAX];
	unsigned pending_count;
	unsigned links;
	unsigned steps;
};

/* Cuts the next component off *s; len 0 at the end. */
static struct tree_part next_part(const char **s)
{
	const char *p = *s + strspn(*s, "/");
	struct tree_part part = {.s = p, .len = strcspn(p, "/")};

	*s = p + part.len;
	return part;
}

static bool part_is(const struct tree_part *p, const char *s)
{
	return p->len == strlen(s) && memcmp(p->s, s, p->len) == 0;
}

int tree_path_parse(const char *s, struct tree_path *ret, struct err *e)
{
	if (strlen(s) > UNPACK_PATH_MAX)
		return err_set(e, ERR_LIMIT, 0, "a name of more than %d bytes", UNPACK_PATH_MAX);
	ret->count = 0;
	for (;;) {
		struct tree_part p = next_part(&s);
		if (p.len == 0)
			return 0;
		if (part_is(&p, "."))
			continue;
		if (part_is(&p, ".."))
			return err_set(e, ERR_INVALID, 0, "a name with \"..\" in it");
		if (p.len > UNPACK_NAME_MAX)
			return err_set(e, ERR_LIMIT, 0,
				"a component of a name has more than %d bytes", UNPACK_NAME_MAX);
		if (ret->count == UNPACK_DEPTH_MAX)
			return err_set(e, ERR_LIMIT, 0, "a name of more than %d components",
				UNPACK_DEPTH_MAX);
		ret->parts[ret->count++] = p;
	}
}

static int walk_part(struct walk *w, struct tree_part p, struct err *e);

static int walk_link(struct walk *w, const char *target, struct err *e)
{
	if (++w->links > UNPACK_SYMLINKS_MAX)
		return err_set(e, ERR_LIMIT, ELOOP,
			"more than %d symbolic links on the way, or a loop of them",
			UNPACK_SYMLINKS_MAX);
	if (target[0] == '/')
		w->dir = w->t->root;
	for (;;) {
		struct tree_part p = next_part(&target);
		if (p.len == 0)
			return 0;
		int r = walk_part(w, p, e);
		if (r < 0)
			return r;
	}
}

static int walk_part(struct walk *w, struct tree_part p, struct err *e)
{
	struct tree_node *n;

	if (++w->steps > UNPACK_STEPS_MAX)
		return err_set(
			e, ERR_LIMIT, 0, "more than %d steps to find the folder", UNPACK_STEPS_MAX);
	if (part_is(&p, "."))
		return 0;
	if (part_is(&p, "..")) {
		if (w->pending_count > 0)
			w->pending_count--;
		else if (w->dir->parent)
			w->dir = w->dir->parent;
		return 0;
	}
	if (p.len > UNPACK_NAME_MAX)
		return err_set(e, ERR_LIMIT, 0,
			"a symbolic link leads to a name of more than %d bytes", UNPACK_NAME_MAX);
	n = w->pending_count > 0 ? NULL : tree_find(w->dir, p.s, p.len);
	if (!n) {
		if (w->pending_count == UNPACK_DEPTH_MAX)
			return err_set(
				e, ERR_LIMIT, 0, "more than %d folders deep", UNPACK_DEPTH_MAX);
		w->pending[w->pending_count++] = p;
		return 0;
	}
	if (S_ISLNK(n->inode->attr.mode))
		return walk_link(w, n->inode->target, e);
	if (!S_ISDIR(n->inode->attr.mode))
		return err_set(e, ERR_INVALID, ENOTDIR, "\"%.64s\" is not a folder", n->name);
	w->dir = n;
	return 0;
}

int tree_walk_parent(struct tree *t, const struct tree_path *path, bool make,
	struct tree_node **ret, struct err *e)
{
	struct walk w;
	int r;

	w.t = t;
	w.dir = t->root;
	w.pending_count = w.links = w.steps = 0;
	for (unsigned i = 0; i + 1 < path->count; i++) {
		r = walk_part(&w, path->parts[i], e);
		if (r < 0)
			return r;
	}
	if (w.pending_count > 0 && !make) {
		*ret = NULL;
		return 0;
	}
	for (unsigned i = 0; i < w.pending_count; i++) {
		r = tree_make_dir(t, w.dir, &w.pending[i], &w.dir, e);
		if (r < 0)
			return r;
	}
	*ret = w.dir;
	return 0;
}
