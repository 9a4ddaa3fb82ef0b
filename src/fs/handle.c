/* SPDX-License-Identifier: Apache-2.0 */
#include "handle.h"

#include "dir.h"

#include "../base/fd.h"

#include <errno.h>
#include <stdlib.h>

void handles_init(struct handles *h)
{
	*h = (struct handles){.next = 1};
}

struct handle *handle_get(struct handles *h, uint64_t id)
{
	struct handle *handle = h->slots[id % HANDLE_SLOTS];

	while (handle && handle->id != id)
		handle = handle->next_in_slot;
	return handle;
}

int handle_add(struct handles *h, uint64_t id, struct node *node, int fd, uint32_t flags,
	struct handle **ret)
{
	struct handle *handle = h->count < HANDLES_MAX ? calloc(1, sizeof(*handle)) : NULL;

	if (!handle)
		return h->count < HANDLES_MAX ? -ENOMEM : -ENFILE;
	handle->id = id ? id : h->next++;
	handle->node = node;
	handle->fd = fd;
	handle->flags = flags;
	handle->next_of_node = node->handles;
	node->handles = handle;
	handle->next_in_slot = h->slots[handle->id % HANDLE_SLOTS];
	h->slots[handle->id % HANDLE_SLOTS] = handle;
	h->count++;
	*ret = handle;
	return 0;
}

void handle_close(struct handles *h, struct nodes *n, struct handle *handle)
{
	struct handle **at = &h->slots[handle->id % HANDLE_SLOTS];
	struct node *node = handle->node;

	while (*at != handle)
		at = &(*at)->next_in_slot;
	*at = handle->next_in_slot;
	at = &node->handles;
	while (*at != handle)
		at = &(*at)->next_of_node;
	*at = handle->next_of_node;
	h->count--;
	(void)fd_close(handle->fd);
	dir_names_free(handle->names);
	free(handle);
	node_drop(n, node);
}

void handles_release(struct handles *h, struct nodes *n)
{
	for (size_t i = 0; i < HANDLE_SLOTS; i++)
		while (h->slots[i])
			handle_close(h, n, h->slots[i]);
}
