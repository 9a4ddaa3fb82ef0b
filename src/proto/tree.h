/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree of files on its way between host and guest (COPY): entries, parents before children, then
 * TREE_END. An entry, little-endian:
 *
 *     u32 length of the header that follows, at most TREE_HEADER_MAX
 *     u8 type, u32 mode (permission bits, TREE_MODE_IMPLIED), u32 uid, u32 gid,
 *     i64 mtime in ns, u64 size
 *     str path      relative, "/" between names; "" is the root of the tree
 *     str target    of a symbolic link; of a hard link the path of an earlier entry
 *
 * and then `size` bytes of content, for TREE_FILE.
 *
 * A file that shrinks while it is sent is filled up with zeros. The receiver trusts nothing: every
 * name of a path is checked (tree_path_is_safe), and it writes below the named destination only.
 */
#ifndef KOSA8_PROTO_TREE_H
#define KOSA8_PROTO_TREE_H

#include "../base/buf.h"
#include "../base/cursor.h"

#include <stdbool.h>
#include <time.h>

#define TREE_PATH_MAX 4096
/* In the mode of a TREE_DIR: nobody said what the folder is to be. It is made where it is missing,
 * and one that is there keeps its mode and time. */
#define TREE_MODE_IMPLIED 010000u
#define TREE_HEADER_MAX (2 * TREE_PATH_MAX + 64)

enum tree_type {
	TREE_FILE = 1,
	TREE_DIR,
	TREE_SYMLINK,
	TREE_HARDLINK,
	TREE_SKIPPED,  /* a device, socket or pipe: not copied; path says which */
	TREE_WHITEOUT, /* of an overlay's upper folder: path is removed */
	TREE_OPAQUE,   /* the folder `path` hides what is below it in the lower one */
	TREE_END,
	TREE_TYPE_END,
};

struct tree_entry {
	enum tree_type type;
	uint32_t mode, uid, gid;
	int64_t mtime_ns; /* since 1970; before it below 0 */
	uint64_t size;
	char path[TREE_PATH_MAX];
	char target[TREE_PATH_MAX];
};

void tree_entry_encode(struct buf *b, const struct tree_entry *m);
/* Looks for a whole header at data. Returns its size with *ret filled in (content follows), 0 when
 * more bytes are needed, -EPROTO when it is none or its path is not safe. */
int tree_entry_parse(const unsigned char *data, size_t len, struct tree_entry *ret) must_check;
/* Relative, no empty name, no "." or "..", names of at most 255 bytes; "" is safe. */
bool tree_path_is_safe(const char *path);
int64_t tree_time_ns(struct timespec t); /* as near to it as 64 bits allow: 1677 to 2262 */
struct timespec tree_timespec(int64_t ns);

#endif
