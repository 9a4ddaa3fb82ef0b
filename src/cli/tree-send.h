/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of this host as a tree (proto/tree.h), made piece by piece. One folder is open at a time;
 * no symbolic link is followed but those that the path given has, and a folder that is moved while
 * it is read ends the copy. What a file system shows as one file under several names is a file and
 * hard links to it.
 */
#ifndef KOSA8_CLI_TREE_SEND_H
#define KOSA8_CLI_TREE_SEND_H

#include "inode-table.h"
#include "skipped.h"

#include "../proto/tree.h"

/* What one call of tree_send_more() appends at most. */
#define TREE_SEND_PIECE (64u * 1024 + TREE_HEADER_MAX + 4)

struct tree_level {
	struct buf names; /* each with its NUL */
	size_t at;
	dev_t dev;
	ino_t ino;
	size_t path_len; /* of entry.path, without what is below */
};

struct tree_send {
	const char *root; /* as given; borrowed */
	bool is_dir;
	bool begun, ended;
	int dirfd; /* of the innermost level */
	struct tree_level *levels;
	size_t depth, cap;
	int file; /* at work, or -1 */
	uint64_t left;
	bool shrunk;
	struct inode_table links;
	struct skipped skipped;
	uint64_t entries, bytes;
	struct tree_entry entry;
};

/* ERR_NOT_FOUND; ERR_INVALID for a device, socket or pipe. */
int tree_send_open(struct tree_send *s, const char *path, struct err *e) must_check;
void tree_send_close(struct tree_send *s);
#define cleanup_tree_send __attribute__((cleanup(tree_send_close)))
/* Appends the next piece. 1; 0 when the end was appended (before, or now). */
int tree_send_more(struct tree_send *s, struct buf *out, struct err *e) must_check;

#endif
