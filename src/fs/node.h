/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the guest knows of the tree: numbers, never reused, for files and folders. A node is known
 * by its identity (device, inode number, time of birth), so hard links share one, and reached by
 * its place: the folder and name under which it was seen last. A node lives while the guest counts
 * lookups of it, or while another node or a handle refers to it.
 *
 * Descriptors (O_PATH) of nodes are kept for the NODE_FDS used last, and opened anew by walking
 * from the root. Whatever is then found is compared by identity: another file is -ESTALE.
 */
#ifndef KOSA8_FS_NODE_H
#define KOSA8_FS_NODE_H

#include "../base/err.h"

#include <linux/stat.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NODE_ROOT 1
#define NODES_MAX 1000000
#define NODE_FDS 1000
#define NODE_DEPTH_MAX 2000
#define NODE_NAME_MAX 255

struct statx;
struct handle;

struct identity {
	uint64_t dev, ino;
	int64_t born_ns; /* 0 where the file system does not know */
};

struct node {
	uint64_t id;
	struct identity identity;
	uint64_t lookups;
	struct node *parent; /* NULL: the root, or a place that is gone */
	char *name;
	struct handle *handles;
	struct node *next_id, *next_identity, *next_watched;
	struct node *newer, *older; /* of those with a descriptor */
	uint32_t children;	    /* nodes whose place is in it */
	int fd;
	int wd;	       /* inotify's, -1 */
	uint16_t type; /* S_IFMT */
};

struct nodes {
	struct node **by_id, **by_identity;
	size_t slots, count;
	uint64_t next;
	struct node *root, *newest, *oldest;
	size_t fds, fds_max;
	void (*freeing)(void *context, struct node *node); /* may be NULL */
	void *context;
};

int nodes_init(struct nodes *n, int root_fd) must_check;
void nodes_release(struct nodes *n);

struct node *node_get(struct nodes *n, uint64_t id); /* NULL: unknown */
struct node *node_find(struct nodes *n, const struct identity *i);
/* The node of this identity, made if need be, its place set. Does not count a lookup: a node that
 * is not referred to must be given to node_drop(). */
int node_see(struct nodes *n, struct node *parent, const char *name, const struct statx *x,
	struct node **ret) must_check;
/* A node of a table that is being restored. */
int node_insert(struct nodes *n, uint64_t id, const struct identity *i, uint16_t type,
	struct node **ret) must_check;
/* Frees it, and then its parents, unless something refers to it. */
void node_drop(struct nodes *n, struct node *node);
void node_forget(struct nodes *n, struct node *node, uint64_t lookups);
int node_place(
	struct nodes *n, struct node *node, struct node *parent, const char *name) must_check;
/* Its name is no more. It lives on by its handles and its descriptor, if it has one. */
void node_gone(struct nodes *n, struct node *node);
bool node_is_at(const struct node *node, const struct node *parent, const char *name);
bool node_is_below(const struct node *node, const struct node *top);

/* The O_PATH descriptor, owned by the table and valid until the next call for another node. */
int node_fd(struct nodes *n, struct node *node) must_check;
void node_fd_forget(struct nodes *n, struct node *node);

struct identity identity_of(const struct statx *x);
bool identity_equal(const struct identity *a, const struct identity *b);
/* What is asked of statx(2) everywhere. */
#define NODE_STATX (STATX_BASIC_STATS | STATX_BTIME)

#endif
