/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree (proto/tree.h) from a guest becomes files of this host.
 *
 * The guest is not trusted. All that is written is named relative to one folder that is opened
 * before anything is read from the guest; a name is one component, and every folder on the way to
 * it is opened with O_NOFOLLOW, so neither a link that was there nor one that came is followed. A
 * file is written under a temporary name beside its place and renamed: it is complete or absent,
 * and a link at its place is replaced. Hard links lead to what this copy made only. Of a mode the
 * permissions are kept, without setuid, setgid and sticky; nothing but files, folders and links is
 * made. tree_receive_confine() holds the whole process to that folder, should all of this fail.
 */
#ifndef KOSA8_CLI_TREE_RECEIVE_H
#define KOSA8_CLI_TREE_RECEIVE_H

#include "inode-table.h"
#include "skipped.h"

#include "../proto/tree-stream.h"

#define RECEIVE_NAME_SIZE 256
#define RECEIVE_PATH_SIZE (RECEIVE_NAME_SIZE + TREE_PATH_MAX)
#define RECEIVE_TEMP_SIZE 32

/* A folder whose mode and time are set when nothing more comes for it. */
struct receive_level {
	size_t path_len;
	mode_t mode;
	int64_t mtime_ns;
};

struct tree_receive {
	const char *shown; /* the destination, for errors; borrowed */
	int base;
	char name[RECEIVE_NAME_SIZE]; /* of the tree's root in base; "": base is the root */
	bool folder_only;	      /* only a folder may come */
	bool replace; /* files in the way of folders are removed; hard links to what is there */
	/* Removes a folder at path, which a file or link is to replace: 1; 0: it stays. NULL: an
	 * error. */
	int (*make_way)(void *ctx, const char *path, struct err *e);
	void *make_way_ctx;
	bool beside; /* shown ends in name */
	bool is_new; /* there was nothing of that name before */
	bool begun, ended;
	int dirfd;		      /* of the folder at work, or -1 */
	char dir[RECEIVE_PATH_SIZE];  /* its path below base */
	char path[RECEIVE_PATH_SIZE]; /* of the entry at work */
	struct receive_level *levels; /* of the folders on the way to the last one */
	size_t depth, cap;
	char level_path[RECEIVE_PATH_SIZE];
	char temp[RECEIVE_TEMP_SIZE]; /* in dirfd; "": none */
	int file;
	mode_t mode; /* of the file at work */
	int64_t mtime_ns;
	uint64_t made; /* entries */
	struct inode_table files;
	struct skipped skipped;
};

/* Where path leads to, by docker's rules: into a folder that is there (as source_name; as its
 * contents), or to a name whose parent is there. shown is path. */
int tree_receive_open(struct tree_receive *t, const char *path, const char *source_name,
	bool contents, struct err *e) must_check;
/* Into this folder; fd is taken. */
void tree_receive_into(struct tree_receive *t, int fd, const char *shown);
void tree_receive_close(struct tree_receive *t); /* a file that is not complete is removed */
#define cleanup_tree_receive __attribute__((cleanup(tree_receive_close)))
/* From here on this process can change files below base only. 1: in force, 0: the kernel has no
 * Landlock. */
int tree_receive_confine(const struct tree_receive *t, struct err *e) must_check;
/* ctx is t. */
extern const struct tree_sink tree_receive_sink;
/* After a failure: removes what is not complete; on a full disk also all of a destination that is
 * new. Else the hint says that part of it is there. Returns the negative errno of e. */
int tree_receive_failed(struct tree_receive *t, struct err *e);

#endif
