/* SPDX-License-Identifier: Apache-2.0 */
/* Layers written byte by byte (POSIX ustar and pax, GNU tar), and trees written as text. */
#ifndef KOSA8_TESTS_LAYERS_H
#define KOSA8_TESTS_LAYERS_H

#include "base/buf.h"
#include "image/unpack/tar.h"

struct item {
	char type; /* ustar typeflag: 0 file, 1 hard link, 2 symlink, 3 char, 4 block, 5 dir, 6 fifo
		    */
	const char *name;
	const char *text; /* file: content; links: target */
	unsigned mode;	  /* 0: 0644, folders 0755 */
	unsigned long uid, gid;
	unsigned major, minor;
	long mtime;
};
#define FILE_(n, ...)                                       \
	{                                                   \
		.type = '0', .name = n, .text = __VA_ARGS__ \
	}
#define HARD(n, target)                                \
	{                                              \
		.type = '1', .name = n, .text = target \
	}
#define SYM(n, target)                                 \
	{                                              \
		.type = '2', .name = n, .text = target \
	}
#define DIR_(n, ...)                                  \
	{                                             \
		.type = '5', .name = n, ##__VA_ARGS__ \
	}
#define WH(n)                                      \
	{                                          \
		.type = '0', .name = n, .text = "" \
	}

/* One header and its content, padded; names over 100 bytes are cut. */
void put_item(struct buf *b, const struct item *i);
/* The header alone, of any size. */
void put_header(struct buf *b, const struct item *i, uint64_t size);
/* A pax header ('x' or 'g') that holds these records, as record() makes them. */
void put_pax(struct buf *b, char type, const struct buf *records);
void put_record(struct buf *records, const char *key, const void *value, size_t len);
/* A GNU long name ('L') or link target ('K') for the next header. */
void put_gnu_long(struct buf *b, char type, const char *name);
void put_end(struct buf *b); /* two zero blocks */
void put_items(struct buf *b, const struct item *items, size_t n);

/* A memory file of these bytes. */
int memory_file(const struct buf *b);

/* Content of files as a sink collects it. */
struct contents {
	struct content {
		struct tree_inode *inode;
		struct buf data;
	} v[256];
	size_t len;
};
struct tar_sink contents_sink(struct contents *c);
void contents_release(struct contents *c);

/* An image being put together. */
struct image {
	struct tree tree;
	struct contents contents;
	struct tar_totals totals;
	struct err err;
};
void image_start(struct image *im, const struct unpack_limits *limits);
/* Applies a layer of raw bytes / of items; the return value of tar_apply(). */
int image_raw(struct image *im, const struct buf *layer);
int image_items(struct image *im, const struct item *items, size_t n);
#define LAYER(im, ...)                                      \
	image_items(im, (const struct item[]){__VA_ARGS__}, \
		sizeof((const struct item[]){__VA_ARGS__}) / sizeof(struct item))
/* One line for each name: "d 755 etc", "f 644 a=content", "l s -> target", "c 600 n 1:3". Owner
 * other than 0:0 follows the mode ("f 644 5:6 a="), names of one inode have "#N" at the end.
 * Valid until the next call. The tree is sealed: call it last. */
const char *image_text(struct image *im);
void image_end(struct image *im);

#endif
