/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree (proto/tree.h) that comes in pieces of any size, taken apart. What comes is not trusted:
 * an entry is handed on when its header is whole and sane, and exactly `size` bytes of content
 * follow it. That the root
 * and other parents come first is for the sink to find out.
 */
#ifndef KOSA8_PROTO_TREE_STREAM_H
#define KOSA8_PROTO_TREE_STREAM_H

#include "tree.h"

/* Functions return 0 or a negative errno with *e set, which ends the stream. */
struct tree_sink {
	int (*entry)(void *ctx, const struct tree_entry *m, struct err *e);
	int (*data)(void *ctx, const void *data, size_t len, struct err *e); /* of a file */
	int (*file_end)(void *ctx, struct err *e); /* after each TREE_FILE, also an empty one */
	int (*end)(void *ctx, struct err *e);	   /* TREE_END */
	void *ctx;
};

struct tree_stream {
	const struct tree_sink *sink;
	struct buf head; /* of a header that is not whole */
	uint64_t left;	 /* content still to come */
	bool ended;
	uint64_t entries, bytes; /* so far: without TREE_END; of content */
	struct tree_entry entry; /* the last one */
};

/* sink is borrowed. */
void tree_stream_init(struct tree_stream *s, const struct tree_sink *sink);
void tree_stream_release(struct tree_stream *s);
#define cleanup_tree_stream __attribute__((cleanup(tree_stream_release)))
/* All of data. ERR_PROTOCOL for what is no tree, or goes on after its end. */
int tree_stream_put(struct tree_stream *s, const void *data, size_t len, struct err *e) must_check;

#endif
