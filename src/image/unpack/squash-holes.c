/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content is stored while layers are read, before it is known what a later layer hides: reading
 * each gzip layer once is worth more than the space (decompressing is most of the time). What no
 * file of the finished tree uses is given back here: the file gets holes, and where the file system
 * cannot make holes, zeros, so that the bytes are the same everywhere.
 */
#include "squash-internal.h"

#include "../../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sqfs/block.h>
#include <sqfs/error.h>
#include <sqfs/inode.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct range {
	uint64_t start, end;
};

struct ranges {
	struct range *v;
	size_t len, cap;
};

static void ranges_release(struct ranges *r)
{
	free(r->v);
}

static int range_add(struct ranges *r, uint64_t start, uint64_t bytes)
{
	if (bytes == 0)
		return 0;
	if (r->len == r->cap) {
		size_t cap = r->cap ? r->cap * 2 : 256;
		struct range *v = realloc(r->v, cap * sizeof(*v));
		if (!v)
			return SQFS_ERROR_ALLOC;
		r->v = v;
		r->cap = cap;
	}
	r->v[r->len++] = (struct range){start, start + bytes};
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static int add_file(struct ranges *r, const sqfs_inode_generic_t *i, bool *fragment_used)
{
	size_t blocks = sqfs_inode_get_file_block_count(i);
	uint32_t index, offset;
	uint64_t start, bytes = 0;

	(void)sqfs_inode_get_file_block_start(i, &start);
	(void)sqfs_inode_get_frag_location(i, &index, &offset);
	for (size_t b = 0; b < blocks; b++)
		bytes += SQFS_ON_DISK_BLOCK_SIZE(i->extra[b]);
	if (index != UINT32_MAX)
		fragment_used[index] = true;
	return range_add(r, start, bytes);
}

static int add_small(const struct tree_inode *i, bool *fragment_used)
{
	uint32_t index = squash_small_fragment(i);

	if (index != UINT32_MAX)
		fragment_used[index] = true;
	return 0;
}

static int add_fragments(struct ranges *r, sqfs_frag_table_t *t, const bool *fragment_used)
{
	sqfs_fragment_t f;
	int status = 0;

	for (size_t i = 0; status == 0 && i < sqfs_frag_table_get_size(t); i++) {
		if (!fragment_used[i])
			continue;
		status = sqfs_frag_table_lookup(t, (uint32_t)i, &f);
		if (status == 0)
			status = range_add(r, f.start_offset, SQFS_ON_DISK_BLOCK_SIZE(f.size));
	}
	return status;
}

static int write_zeros(struct squash *s, uint64_t start, uint64_t end)
{
	static const unsigned char zeros[65536];

	while (start < end) {
		size_t n = end - start < sizeof(zeros) ? (size_t)(end - start) : sizeof(zeros);
		int r = s->file.base.write_at(&s->file.base, start, zeros, n);
		if (r < 0)
			return r;
		start += n;
	}
	return 0;
}

static int drop(struct squash *s, uint64_t start, uint64_t end)
{
	if (start >= end)
		return 0;
	if (fallocate(s->file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)start,
		    (off_t)(end - start)) == 0)
		return 0;
	return write_zeros(s, start, end);
}

static int drop_gaps(struct squash *s, struct ranges *r, uint64_t at)
{
	int status = 0;

	if (r->len > 0)
		qsort(r->v, r->len, sizeof(*r->v), by_start);
	for (size_t i = 0; status == 0 && i < r->len; i++) {
		status = drop(s, at, r->v[i].start);
		if (r->v[i].end > at)
			at = r->v[i].end;
	}
	return status < 0 ? status : drop(s, at, s->data_end);
}

int squash_drop_unused(struct squash *s, const struct tree *t, struct err *e)
{
	__attribute__((cleanup(ranges_release))) struct ranges ranges = {0};
	bool *fragment_used;
	int r = 0;

	if (t->dropped == 0)
		return 0;
	fragment_used = calloc(sqfs_frag_table_get_size(s->fragments) + 1, sizeof(bool));
	if (!fragment_used)
		r = SQFS_ERROR_ALLOC;
	for (const struct tree_inode *i = t->inodes; r == 0 && i; i = i->next)
		if (i->written && S_ISREG(i->attr.mode))
			r = i->is_small ? add_small(i, fragment_used)
					: add_file(&ranges, i->data, fragment_used);
	if (r == 0)
		r = add_fragments(&ranges, s->fragments, fragment_used);
	free(fragment_used);
	if (r == 0)
		r = drop_gaps(s, &ranges, s->data_start);
	return r < 0 ? squash_file_err(&s->file, r, "cannot give unused space back", e) : 0;
}
