/* SPDX-License-Identifier: Apache-2.0 */
#include "tree-stream.h"

#include <errno.h>

void tree_stream_init(struct tree_stream *s, const struct tree_sink *sink)
{
	*s = (struct tree_stream){.sink = sink};
	buf_init(&s->head, TREE_HEADER_MAX + 4);
}

void tree_stream_release(struct tree_stream *s)
{
	buf_release(&s->head);
}

static int no_tree(struct err *e)
{
	return err_set(
		e, ERR_PROTOCOL, 0, "what came is no tree of files, or names what it may not");
}

static int take_entry(struct tree_stream *s, struct err *e)
{
	int r;

	if (s->entry.type == TREE_END && s->entries == 0)
		return no_tree(e);
	if (s->entry.type == TREE_END) {
		s->ended = true;
		return s->sink->end(s->sink->ctx, e);
	}
	s->entries++;
	s->left = s->entry.size;
	r = s->sink->entry(s->sink->ctx, &s->entry, e);
	if (r == 0 && s->entry.type == TREE_FILE && s->left == 0)
		r = s->sink->file_end(s->sink->ctx, e);
	return r;
}

static int take_content(struct tree_stream *s, const void *data, size_t len, struct err *e)
{
	int r = s->sink->data(s->sink->ctx, data, len, e);

	s->left -= len;
	s->bytes += len;
	return r == 0 && s->left == 0 ? s->sink->file_end(s->sink->ctx, e) : r;
}

/* The size of the part of a header that was taken from data, or a negative errno. */
static int take_header(struct tree_stream *s, const unsigned char *data, size_t len, struct err *e)
{
	size_t before = s->head.len;
	int n, r;

	/* A header in one piece is parsed where it is. */
	n = before == 0 ? tree_entry_parse(data, len, &s->entry) : 0;
	if (n == 0) {
		size_t room = s->head.max - before;
		buf_put(&s->head, data, len < room ? len : room);
		if (buf_failed(&s->head))
			return err_set(e, ERR_IO, ENOMEM, "out of memory");
		n = tree_entry_parse(s->head.data, s->head.len, &s->entry);
	}
	if (n == 0 && s->head.len < s->head.max)
		return (int)(s->head.len - before);
	if (n <= 0)
		return no_tree(e);
	buf_reset(&s->head);
	r = take_entry(s, e);
	return r < 0 ? r : n - (int)before;
}

int tree_stream_put(struct tree_stream *s, const void *data, size_t len, struct err *e)
{
	const unsigned char *at = data;

	while (len > 0) {
		size_t part = s->left < len ? (size_t)s->left : len;
		int r;
		if (s->ended)
			return no_tree(e);
		if (s->left > 0) {
			r = take_content(s, at, part, e);
		} else {
			r = take_header(s, at, len, e);
			part = r < 0 ? 0 : (size_t)r;
		}
		if (r < 0)
			return r;
		at += part;
		len -= part;
	}
	return 0;
}
