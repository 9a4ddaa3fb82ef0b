/* SPDX-License-Identifier: Apache-2.0 */
#include "node.h"

#include "handle.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define SLOTS_MIN 1024

struct identity identity_of(const struct statx *x)
{
	return (struct identity){
		.dev = makedev(x->stx_dev_major, x->stx_dev_minor),
		.ino = x->stx_ino,
		.born_ns = x->stx_mask & STATX_BTIME
				   ? (int64_t)((uint64_t)x->stx_btime.tv_sec * 1000000000u +
					       x->stx_btime.tv_nsec)
				   : 0,
	};
}

bool identity_equal(const struct identity *a, const struct identity *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->born_ns == b->born_ns;
}

static size_t id_slot(const struct nodes *n, uint64_t id)
{
	return (size_t)id & (n->slots - 1);
}

static size_t identity_slot(const struct nodes *n, const struct identity *i)
{
	uint64_t h = (i->ino ^ (i->dev << 32) ^ (uint64_t)i->born_ns) * 0x9e3779b97f4a7c15u;

	return (size_t)(h >> 20) & (n->slots - 1);
}

static void link_node(struct nodes *n, struct node *node)
{
	size_t a = id_slot(n, node->id), b = identity_slot(n, &node->identity);

	node->next_id = n->by_id[a];
	n->by_id[a] = node;
	node->next_identity = n->by_identity[b];
	n->by_identity[b] = node;
}

static int resize(struct nodes *n, size_t slots)
{
	struct node **old = n->by_id;
	size_t old_slots = n->slots;
	struct node **by_id = calloc(slots, sizeof(struct node *));
	struct node **by_identity = calloc(slots, sizeof(struct node *));

	if (!by_id || !by_identity) {
		free(by_id);
		free(by_identity);
		return -ENOMEM;
	}
	free(n->by_identity);
	n->by_id = by_id;
	n->by_identity = by_identity;
	n->slots = slots;
	for (size_t i = 0; i < old_slots; i++) {
		for (struct node *node = old[i], *next; node; node = next) {
			next = node->next_id;
			link_node(n, node);
		}
	}
	free(old);
	return 0;
}

struct node *node_get(struct nodes *n, uint64_t id)
{
	struct node *node = n->by_id[id_slot(n, id)];

	while (node && node->id != id)
		node = node->next_id;
	return node;
}

struct node *node_find(struct nodes *n, const struct identity *i)
{
	struct node *node = n->by_identity[identity_slot(n, i)];

	while (node && !identity_equal(&node->identity, i))
		node = node->next_identity;
	return node;
}

int node_insert(
	struct nodes *n, uint64_t id, const struct identity *i, uint16_t type, struct node **ret)
{
	struct node *node;

	if (n->count >= NODES_MAX)
		return -ENFILE;
	if (n->count >= n->slots && resize(n, n->slots * 2) < 0)
		return -ENOMEM;
	node = calloc(1, sizeof(*node));
	if (!node)
		return -ENOMEM;
	*node = (struct node){.id = id, .identity = *i, .type = type, .fd = -1, .wd = -1};
	link_node(n, node);
	n->count++;
	*ret = node;
	return 0;
}

int nodes_init(struct nodes *n, int root_fd)
{
	struct statx x;
	int r;

	*n = (struct nodes){.next = NODE_ROOT + 1, .fds_max = NODE_FDS};
	if (statx(root_fd, "", AT_EMPTY_PATH, NODE_STATX, &x) < 0)
		return -errno;
	if (!S_ISDIR(x.stx_mode))
		return -ENOTDIR;
	struct identity i = identity_of(&x);
	r = resize(n, SLOTS_MIN);
	if (r == 0)
		r = node_insert(n, NODE_ROOT, &i, S_IFDIR, &n->root);
	if (r < 0)
		return r;
	n->root->fd = root_fd;
	n->root->lookups = 1;
	return 0;
}

void nodes_release(struct nodes *n)
{
	for (size_t s = 0; s < n->slots; s++) {
		for (struct node *node = n->by_id[s], *next; node; node = next) {
			next = node->next_id;
			if (node != n->root)
				(void)fd_close(node->fd);
			free(node->name);
			free(node);
		}
	}
	free(n->by_id);
	free(n->by_identity);
	*n = (struct nodes){0};
}

bool node_is_at(const struct node *node, const struct node *parent, const char *name)
{
	return node->parent == parent && node->name && strcmp(node->name, name) == 0;
}

bool node_is_below(const struct node *node, const struct node *top)
{
	while (node && node != top)
		node = node->parent;
	return node == top;
}

static void unlink_chain(struct node **slot, const struct node *node, bool by_id)
{
	while (*slot && *slot != node)
		slot = by_id ? &(*slot)->next_id : &(*slot)->next_identity;
	if (*slot)
		*slot = by_id ? node->next_id : node->next_identity;
}

void node_drop(struct nodes *n, struct node *node)
{
	while (node && node != n->root && node->lookups == 0 && node->children == 0 &&
		!node->handles) {
		struct node *parent = node->parent;

		if (n->freeing)
			n->freeing(n->context, node);
		node_fd_forget(n, node);
		unlink_chain(&n->by_id[id_slot(n, node->id)], node, true);
		unlink_chain(&n->by_identity[identity_slot(n, &node->identity)], node, false);
		n->count--;
		free(node->name);
		free(node);
		if (parent)
			parent->children--;
		node = parent;
	}
}

void node_forget(struct nodes *n, struct node *node, uint64_t lookups)
{
	if (node == n->root)
		return;
	node->lookups -= lookups < node->lookups ? lookups : node->lookups;
	node_drop(n, node);
}

int node_place(struct nodes *n, struct node *node, struct node *parent, const char *name)
{
	struct node *old = node->parent;

	if (node == n->root || node_is_at(node, parent, name))
		return 0;
	/* The host can move a folder below what was below it: then what is known is out of date. */
	if (node_is_below(parent, node))
		return -ESTALE;
	char *copy = strdup(name);
	if (!copy)
		return -ENOMEM;
	free(node->name);
	node->name = copy;
	node->parent = parent;
	parent->children++;
	if (old) {
		old->children--;
		node_drop(n, old);
	}
	return 0;
}

void node_gone(struct nodes *n, struct node *node)
{
	struct node *parent = node->parent;

	if (!parent)
		return;
	node->parent = NULL;
	free(node->name);
	node->name = NULL;
	parent->children--;
	node_drop(n, parent);
}

int node_see(struct nodes *n, struct node *parent, const char *name, const struct statx *x,
	struct node **ret)
{
	struct identity i = identity_of(x);
	struct node *node = node_find(n, &i);
	int r;

	if (!node) {
		r = node_insert(n, n->next, &i, x->stx_mode & S_IFMT, &node);
		if (r < 0)
			return r;
		n->next++;
	}
	r = node_place(n, node, parent, name);
	if (r < 0) {
		node_drop(n, node);
		return r;
	}
	*ret = node;
	return 0;
}

/* ---- descriptors ---- */

static void lru_remove(struct nodes *n, struct node *node)
{
	*(node->newer ? &node->newer->older : &n->newest) = node->older;
	*(node->older ? &node->older->newer : &n->oldest) = node->newer;
	node->newer = node->older = NULL;
	n->fds--;
}

static void lru_add(struct nodes *n, struct node *node)
{
	node->older = n->newest;
	node->newer = NULL;
	*(n->newest ? &n->newest->newer : &n->oldest) = node;
	n->newest = node;
	n->fds++;
}

void node_fd_forget(struct nodes *n, struct node *node)
{
	if (node == n->root || node->fd < 0)
		return;
	lru_remove(n, node);
	node->fd = fd_close(node->fd);
}

static int open_child(int dir, const char *name)
{
	struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};

	long fd = syscall(SYS_openat2, dir, name, &how, sizeof(how));
	return fd < 0 ? -errno : (int)fd;
}

static int open_in(struct nodes *n, struct node *node, int dir)
{
	struct statx x;
	cleanup_fd int fd = open_child(dir, node->name);

	if (fd == -EMFILE && n->oldest && n->oldest->fd != dir) {
		node_fd_forget(n, n->oldest);
		fd = open_child(dir, node->name);
	}
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR ? -ESTALE : fd;
	if (statx(fd, "", AT_EMPTY_PATH, NODE_STATX, &x) < 0)
		return -errno;
	struct identity i = identity_of(&x);
	if (!identity_equal(&i, &node->identity))
		return -ESTALE;
	while (n->fds >= n->fds_max)
		node_fd_forget(n, n->oldest);
	node->fd = fd_take(&fd);
	lru_add(n, node);
	return node->fd;
}

/* From the nearest ancestor that has a descriptor down to node. */
int node_fd(struct nodes *n, struct node *node)
{
	struct node *path[NODE_DEPTH_MAX];
	size_t depth = 0;
	int fd = -ESTALE;

	if (node->fd >= 0 && node != n->root && node != n->newest) {
		lru_remove(n, node);
		lru_add(n, node);
	}
	for (struct node *at = node; at && at->fd < 0; at = at->parent) {
		if (depth == NODE_DEPTH_MAX)
			return -ENAMETOOLONG;
		if (!at->parent)
			return -ESTALE;
		path[depth++] = at;
		fd = at->parent->fd;
	}
	if (depth == 0)
		return node->fd;
	while (depth > 0) {
		fd = open_in(n, path[--depth], fd);
		if (fd < 0)
			return fd;
	}
	return fd;
}
