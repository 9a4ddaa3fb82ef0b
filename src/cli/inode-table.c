/* SPDX-License-Identifier: Apache-2.0 */
#include "inode-table.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CAP_MIN 64

void inode_table_release(struct inode_table *t)
{
	for (size_t i = 0; i < t->cap; i++)
		free(t->slots[i].path);
	free(t->slots);
	*t = (struct inode_table){0};
}

/* Where it is, or the free slot where it would be. */
static struct inode_slot *probe(const struct inode_table *t, dev_t dev, ino_t ino)
{
	uint64_t hash = ((uint64_t)ino ^ ((uint64_t)dev << 40)) * 0x9e3779b97f4a7c15ull;

	for (size_t i = (size_t)(hash >> 32);; i++) {
		struct inode_slot *s = &t->slots[i & (t->cap - 1)];
		if (!s->used || (s->ino == ino && s->dev == dev))
			return s;
	}
}

const struct inode_slot *inode_table_find(const struct inode_table *t, const struct stat *st)
{
	struct inode_slot *s = t->cap > 0 ? probe(t, st->st_dev, st->st_ino) : NULL;

	return s && s->used ? s : NULL;
}

static int grow(struct inode_table *t)
{
	struct inode_table bigger = {.len = t->len, .cap = t->cap ? 2 * t->cap : CAP_MIN};

	bigger.slots = calloc(bigger.cap, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < t->cap; i++)
		if (t->slots[i].used)
			*probe(&bigger, t->slots[i].dev, t->slots[i].ino) = t->slots[i];
	free(t->slots);
	*t = bigger;
	return 0;
}

int inode_table_add(struct inode_table *t, const struct stat *st, const char *path)
{
	char *copy = NULL;

	if (inode_table_find(t, st))
		return 0;
	if (2 * (t->len + 1) > t->cap && grow(t) < 0)
		return -ENOMEM;
	if (path && !(copy = strdup(path)))
		return -ENOMEM;
	*probe(t, st->st_dev, st->st_ino) = (struct inode_slot){
		.dev = st->st_dev, .ino = st->st_ino, .used = true, .path = copy};
	t->len++;
	return 0;
}
