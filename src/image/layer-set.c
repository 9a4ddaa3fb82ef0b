/* SPDX-License-Identifier: Apache-2.0 */
#include "layer-set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct blob *find(const struct layer_set *s, const char *digest)
{
	for (size_t i = 0; i < s->len; i++)
		if (strcmp(s->items[i].descriptor.digest, digest) == 0)
			return &s->items[i];
	return NULL;
}

int layer_set_init(
	struct layer_set *s, const struct manifest *m, const struct images *i, struct err *e)
{
	s->items = calloc(m->len ? m->len : 1, sizeof(*s->items));
	if (!s->items)
		return err_errno(e, ENOMEM, "%zu layers", m->len);
	for (size_t n = 0; n < m->len; n++) {
		const struct descriptor *d = &m->descriptors[n];
		const struct blob *same = find(s, d->digest);
		if (same && same->descriptor.size != d->size)
			return err_set(e, ERR_PROTOCOL, 0,
				"the manifest gives two sizes for layer %s", d->digest);
		if (!same)
			blob_init(&s->items[s->len++], i, d);
	}
	return 0;
}

void layer_set_release(struct layer_set *s)
{
	for (size_t i = 0; i < s->len; i++)
		blob_release(&s->items[i]);
	free(s->items);
	*s = (struct layer_set){0};
}

int layer_set_look(struct layer_set *s, bool *ret_all_here, struct err *e)
{
	bool all = true;

	for (size_t i = 0; i < s->len; i++) {
		struct blob *b = &s->items[i];
		int r = b->state == BLOB_ABSENT ? blob_look(b, e) : 0;
		if (r < 0)
			return r;
		all = all && b->state == BLOB_HERE;
	}
	*ret_all_here = all;
	return 0;
}

void layer_set_tell(struct layer_set *s)
{
	for (size_t i = 0; i < s->len; i++)
		blob_tell(&s->items[i]);
}

uint64_t layer_set_missing(const struct layer_set *s)
{
	uint64_t sum = 0; /* cannot wrap: MANIFEST_LAYERS_MAX times LAYER_BYTES_MAX */

	for (size_t i = 0; i < s->len; i++)
		if (s->items[i].state != BLOB_HERE)
			sum += s->items[i].descriptor.size - s->items[i].done;
	return sum;
}

struct blob *layer_set_busy(const struct layer_set *s)
{
	for (size_t i = 0; i < s->len; i++)
		if (s->items[i].state == BLOB_ABSENT)
			return &s->items[i];
	return NULL;
}

void layer_set_readers(
	const struct layer_set *s, const struct manifest *m, int ret[static MANIFEST_LAYERS_MAX])
{
	for (size_t i = 0; i < m->len; i++)
		ret[i] = find(s, m->descriptors[i].digest)->reader;
}

bool layer_set_drop_damaged(struct layer_set *s)
{
	bool any = false;

	for (size_t i = 0; i < s->len; i++)
		any = blob_drop_damaged(&s->items[i]) || any;
	return any;
}
