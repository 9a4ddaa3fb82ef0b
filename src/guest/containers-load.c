/* SPDX-License-Identifier: Apache-2.0 */
/* The kept containers of a disk that was used before. */
#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/log.h"
#include "container-state.h"
#include "containers.h"
#include "trash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The machine went away under it, with what it had not written. */
static void mark_lost(struct containers *cs, struct container_entry *c)
{
	c->is.state = AGENT_CONTAINER_ENDED;
	c->is.exit = (struct agent_exit){.how = AGENT_END_LOST};
	c->is.ended_ns = (uint64_t)clock_wall_ns();
	container_changed(cs, c);
}

static int load_one(struct containers *cs, const char *id)
{
	struct container_entry *c;

	if (!container_id_is_valid(id) || cs->len == AGENT_CONTAINERS_MAX)
		return -EPROTO;
	cleanup_fd int dir = openat(
		cs->disk->containers_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	struct agent_container is;
	int r = container_state_read(dir, &is);
	if (r < 0)
		return r;
	if (strcmp(is.id, id) != 0 || !(is.flags & AGENT_KEEP))
		return -EPROTO;
	c = container_entry_new();
	if (!c)
		return -ENOMEM;
	c->is = is;
	c->is.attached = c->is.processes = 0;
	c->is.memory_bytes = 0;
	c->dirfd = fd_take(&dir);
	container_log_init(&c->log, c->dirfd);
	cs->list[cs->len++] = c;
	if (c->is.state != AGENT_CONTAINER_ENDED)
		mark_lost(cs, c);
	return 0;
}

static int by_creation(const void *a, const void *b)
{
	const struct container_entry *const *x = a, *const *y = b;

	return (*x)->is.created_ns < (*y)->is.created_ns   ? -1
	       : (*x)->is.created_ns > (*y)->is.created_ns ? 1
							   : strcmp((*x)->is.id, (*y)->is.id);
}

/* A name is one container's, whatever the records say. */
static void drop_double_names(struct containers *cs)
{
	for (size_t i = 0; i < cs->len; i++)
		for (size_t k = 0; *cs->list[i]->is.name && k < i; k++)
			if (strcmp(cs->list[i]->is.name, cs->list[k]->is.name) == 0)
				*cs->list[i]->is.name = '\0';
}

void containers_load(struct containers *cs)
{
	int fd = openat(cs->disk->containers_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (!d) {
		log_warn("containers of the disk: %s", strerror(errno));
		(void)fd_close(fd);
		return;
	}
	while ((de = readdir(d))) {
		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
			continue;
		int r = load_one(cs, de->d_name);
		if (r == 0)
			continue;
		log_warn("a container of the disk is not readable (%s), it is removed",
			strerror(-r));
		r = trash_take(cs->disk->trash_fd, cs->disk->containers_fd, de->d_name);
		if (r < 0)
			log_warn("remove it: %s", strerror(-r));
	}
	(void)closedir(d);
	if (cs->len > 0)
		qsort(cs->list, cs->len, sizeof(cs->list[0]), by_creation);
	drop_double_names(cs);
}

void containers_close(struct containers *cs)
{
	while (cs->len > 0)
		container_entry_forget(cs, cs->list[cs->len - 1]);
}
