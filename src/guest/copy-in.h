/* SPDX-License-Identifier: Apache-2.0 */
/* A tree on its way in: the stream (copy-receive.c), and its entries in the file system
 * (copy-in.c). */
#ifndef KOSA8_GUEST_COPY_IN_H
#define KOSA8_GUEST_COPY_IN_H

#include "../proto/tree.h"
#include "copy-tree.h"

#include <time.h>

#define COPY_TEMP_SIZE 32
#define COPY_PATH_SIZE (COPY_NAME_SIZE + TREE_PATH_MAX + 1)
#define COPY_STAGE_SIZE (256u * 1024)

struct copy_in {
	int fd;		  /* of the stream */
	int base;	  /* the folder to which all paths are relative; borrowed */
	const char *name; /* of the tree's root in it; "": the root is the base itself */
	uid_t owner;
	gid_t group;
	char path[COPY_PATH_SIZE]; /* of the entry, below the base */
	struct tree_entry entry;
	/* The folder at work. */
	int folder;	     /* -1: none */
	bool folder_in_tree; /* its time is to be set when it is left */
	struct timespec folder_time;
	char folder_path[COPY_PATH_SIZE];
	/* Not taken yet: data[start] to data[end]. */
	size_t start, end;
	unsigned char data[COPY_STAGE_SIZE];
};

/* copy-receive.c */
/* Adds what the stream has to what is not taken; the end of the stream is an error. */
int copy_in_fill(struct copy_in *in, struct err *e) must_check;
/* Of a path of the stream, below the base. */
void copy_in_path(const struct copy_in *in, const char *path, char ret[static COPY_PATH_SIZE]);

/* copy-in.c */
/* Makes in->entry, and takes its content from the stream. */
int copy_in_make(struct copy_in *in, struct err *e) must_check;
void copy_in_leave_folder(struct copy_in *in);

#endif
