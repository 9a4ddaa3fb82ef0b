/* SPDX-License-Identifier: Apache-2.0 */
#include "copy-links.h"

#include <stdlib.h>
#include <string.h>

#define SIZE_MIN 1024

void copy_links_init(struct copy_links *l)
{
	*l = (struct copy_links){0};
	buf_init(&l->paths, COPY_LINKS_PATHS_MAX);
	buf_put_u8(&l->paths, 0); /* so that no path is at 0 */
}

void copy_links_release(struct copy_links *l)
{
	free(l->table);
	buf_release(&l->paths);
	*l = (struct copy_links){0};
}

static struct copy_link *find(const struct copy_links *l, dev_t dev, ino_t ino)
{
	uint64_t hash = ((uint64_t)ino * 31 + (uint64_t)dev) * 0x9e3779b97f4a7c15u;
	size_t at = (size_t)(hash >> 32) & (l->size - 1);

	while (l->table[at].path != 0 && (l->table[at].dev != dev || l->table[at].ino != ino))
		at = (at + 1) & (l->size - 1);
	return &l->table[at];
}

static bool grow(struct copy_links *l)
{
	struct copy_links next = *l;

	next.size = l->size ? 2 * l->size : SIZE_MIN;
	next.table = calloc(next.size, sizeof(*next.table));
	if (!next.table)
		return false;
	for (size_t i = 0; i < l->size; i++)
		if (l->table[i].path != 0)
			*find(&next, l->table[i].dev, l->table[i].ino) = l->table[i];
	free(l->table);
	*l = next;
	return true;
}

const char *copy_links_note(struct copy_links *l, dev_t dev, ino_t ino, const char *path)
{
	if (l->size > 0) {
		const struct copy_link *known = find(l, dev, ino);
		if (known->path != 0)
			return (const char *)l->paths.data + known->path;
	}
	if (l->used >= COPY_LINKS_MAX || (2 * l->used >= l->size && !grow(l)))
		return NULL;
	size_t at = l->paths.len;
	buf_put(&l->paths, path, strlen(path) + 1);
	if (buf_failed(&l->paths))
		return NULL;
	*find(l, dev, ino) = (struct copy_link){.dev = dev, .ino = ino, .path = at};
	l->used++;
	return NULL;
}
