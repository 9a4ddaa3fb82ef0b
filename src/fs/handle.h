/* SPDX-License-Identifier: Apache-2.0 */
/* What the guest has open: numbers, never reused, for descriptors. A handle of a restored table has
 * none until it is used. */
#ifndef KOSA8_FS_HANDLE_H
#define KOSA8_FS_HANDLE_H

#include "node.h"

#define HANDLES_MAX 65536
#define HANDLE_SLOTS 4096

struct dir_names;

struct handle {
	uint64_t id;
	struct node *node;
	struct handle *next_of_node, *next_in_slot;
	struct dir_names *names; /* of a folder that is being read */
	int fd;
	uint32_t flags; /* of open(2), without what only makes or empties a file */
};

struct handles {
	struct handle *slots[HANDLE_SLOTS];
	size_t count;
	uint64_t next;
};

void handles_init(struct handles *h);
void handles_release(struct handles *h, struct nodes *n);
struct handle *handle_get(struct handles *h, uint64_t id); /* NULL: unknown */
/* Takes fd (-1: to be opened when used). id 0: the next one. */
int handle_add(struct handles *h, uint64_t id, struct node *node, int fd, uint32_t flags,
	struct handle **ret) must_check;
void handle_close(struct handles *h, struct nodes *n, struct handle *handle);

#endif
