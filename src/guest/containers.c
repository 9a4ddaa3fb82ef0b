/* SPDX-License-Identifier: Apache-2.0 */
#include "containers.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/file.h"
#include "../base/log.h"
#include "../base/strv.h"
#include "../base/text.h"
#include "boot.h"
#include "container-state.h"
#include "run.h"
#include "trash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool container_id_is_valid(const char *id)
{
	return strlen(id) == CONTAINER_ID_SIZE - 1 &&
	       strspn(id, "0123456789abcdefghijklmnopqrstuvwxyz") == CONTAINER_ID_SIZE - 1;
}

bool container_name_is_valid(const char *name)
{
	size_t len = strlen(name);

	return len < AGENT_NAME_SIZE &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
		       len &&
	       (len == 0 || !strchr("_.-", name[0]));
}

struct container_entry *container_entry_new(void)
{
	struct container_entry *c = calloc(1, sizeof(*c));

	if (c) {
		c->cgroup_fd = c->dirfd = -1;
		container_log_init(&c->log, -1);
	}
	return c;
}

static void entry_free(struct container_entry *c)
{
	container_log_close(&c->log);
	(void)fd_close(c->dirfd);
	(void)fd_close(c->cgroup_fd);
	free(c->user);
	free(c->cwd);
	strv_free(c->env);
	free(c);
}

static struct container_entry *by_id(const struct containers *cs, const char *id)
{
	for (size_t i = 0; i < cs->len; i++)
		if (strcmp(cs->list[i]->is.id, id) == 0)
			return cs->list[i];
	return NULL;
}

static struct container_entry *by_name(const struct containers *cs, const char *name)
{
	for (size_t i = 0; *name && i < cs->len; i++)
		if (strcmp(cs->list[i]->is.name, name) == 0)
			return cs->list[i];
	return NULL;
}

/* More edits than this are another word. */
#define SLIPS_MAX 2

static void not_found(
	const struct containers *cs, const char *ref, const char *shown, struct err *e)
{
	const char *nearest = NULL;
	unsigned best = SLIPS_MAX + 1;

	for (size_t i = 0; i < cs->len; i++) {
		const char *name = cs->list[i]->is.name;
		unsigned d = *name ? text_distance(ref, name, SLIPS_MAX) : best;

		if (d < best && d < strlen(ref)) {
			best = d;
			nearest = name;
		}
	}
	if (nearest)
		(void)err_set(e, ERR_NOT_FOUND, ENOENT, "no such container: %s: did you mean %s?",
			shown, nearest);
	else
		(void)err_set(e, ERR_NOT_FOUND, ENOENT, "no such container: %s", shown);
}

struct container_entry *containers_find(struct containers *cs, const char *ref, struct err *e)
{
	struct container_entry *found = by_id(cs, ref);
	char shown[2 * AGENT_REF_SIZE];

	if (!found)
		found = by_name(cs, ref);
	if (found)
		return found;
	text_escape(ref, shown, sizeof(shown));
	for (size_t i = 0; *ref && i < cs->len; i++) {
		if (!text_starts_with(cs->list[i]->is.id, ref))
			continue;
		if (found) {
			(void)err_set(e, ERR_INVALID, ENOTUNIQ,
				"several containers have an id that begins with %s", shown);
			return NULL;
		}
		found = cs->list[i];
	}
	if (!found)
		not_found(cs, ref, shown, e);
	return found;
}

static int check(const struct containers *cs, const struct agent_run *m, struct err *e)
{
	if (!container_id_is_valid(m->id))
		return err_set(e, ERR_INVALID, EINVAL, "not the id of a container");
	if (!container_name_is_valid(m->name))
		return err_set(e, ERR_INVALID, EINVAL, "not the name of a container");
	if (by_id(cs, m->id))
		return err_set(e, ERR_EXISTS, EEXIST, "container %s exists", m->id);
	/* What looks for one must find it, and not the other. */
	const struct container_entry *other = by_id(cs, m->name);
	if (other || strcmp(m->name, m->id) == 0)
		return err_set(e, ERR_EXISTS, EEXIST,
			"the name %s is the id of a container: choose another", m->name);
	if ((other = by_name(cs, m->id)))
		return err_set(e, ERR_EXISTS, EEXIST,
			"container %s has the new id %s as its name: try again", other->is.id,
			m->id);
	other = by_name(cs, m->name);
	if (other)
		return err_set(e, ERR_EXISTS, EEXIST, "the name %s is container %s's", m->name,
			other->is.id);
	if (cs->len == AGENT_CONTAINERS_MAX)
		return err_set(e, ERR_LIMIT, EAGAIN,
			"the sandbox has %d containers, which is the limit: remove some",
			AGENT_CONTAINERS_MAX);
	return 0;
}

/* argv as one line, cut between characters. */
static void join_command(char *const *argv, char ret[static AGENT_TEXT_MAX])
{
	size_t len = 0;

	for (; *argv && len < AGENT_TEXT_MAX - 1; argv++) {
		int n = snprintf(ret + len, AGENT_TEXT_MAX - len, "%s%s", len ? " " : "", *argv);
		len += (size_t)n < AGENT_TEXT_MAX - len ? (size_t)n : AGENT_TEXT_MAX - 1 - len;
	}
	while (len == AGENT_TEXT_MAX - 1 && len > AGENT_TEXT_MAX - 5 && !text_is_utf8(ret, len))
		ret[--len] = '\0';
}

static char *take_str(char **s)
{
	char *taken = *s;

	*s = NULL;
	return taken;
}

const char *container_label(const struct container_entry *c)
{
	return *c->is.name ? c->is.name : c->is.id;
}

int containers_add(
	struct containers *cs, struct agent_run *m, struct container_entry **ret, struct err *e)
{
	int r = check(cs, m, e);
	struct container_entry *c = r < 0 ? NULL : container_entry_new();

	if (r == 0 && !c)
		r = err_errno(e, ENOMEM, "start the container");
	if (!c)
		return r;
	c->is = (struct agent_container){.state = AGENT_CONTAINER_STARTING,
		.flags = m->flags & (AGENT_STDIN_OPEN | AGENT_TTY),
		.created_ns = (uint64_t)clock_wall_ns()};
	(void)snprintf(c->is.id, sizeof(c->is.id), "%s", m->id);
	(void)snprintf(c->is.name, sizeof(c->is.name), "%s", m->name);
	(void)snprintf(c->is.image, sizeof(c->is.image), "%s", m->image);
	(void)snprintf(c->is.image_name, sizeof(c->is.image_name), "%s", m->image_name);
	join_command(m->argv, c->is.command);
	c->user = take_str(&m->user);
	c->cwd = take_str(&m->cwd);
	c->env = strv_take(&m->env);
	cs->list[cs->len++] = c;
	*ret = c;
	return 0;
}

static int keep_on_disk(struct containers *cs, struct container_entry *c, struct err *e)
{
	cleanup_fd int dir = dir_open(cs->disk->containers_fd, c->is.id, true, 0700);

	if (dir < 0)
		return err_errno(e, -dir, "folder of the container");
	if (*c->folder && renameat(cs->disk->runs_fd, c->folder, dir, "layer") < 0)
		return err_errno(e, errno, "folder of the container");
	*c->folder = '\0';
	c->dirfd = fd_take(&dir);
	container_log_init(&c->log, c->dirfd);
	int r = container_log_open(&c->log, e);
	return r < 0 ? err_wrap(e, "log of the container") : 0;
}

int container_keep(struct containers *cs, struct container_entry *c, struct err *e)
{
	int r = 0;

	if (container_is_kept(c))
		return 0;
	c->is.flags |= AGENT_KEEP;
	r = keep_on_disk(cs, c, e);
	if (r == 0 && (r = container_state_write(c->dirfd, &c->is)) < 0)
		r = err_errno(e, -r, "record of the container");
	if (r == 0)
		keeper_sync(cs->keeper, c->is.id);
	return r;
}

void container_changed(struct containers *cs, struct container_entry *c)
{
	if (!container_is_kept(c) || c->dirfd < 0)
		return;
	int r = container_state_write(c->dirfd, &c->is);
	if (r < 0)
		log_warn("record of container %s: %s", c->is.id, strerror(-r));
	keeper_sync(cs->keeper, c->is.id);
}

void container_write_log(
	struct container_entry *c, enum log_which which, const void *data, size_t len)
{
	if (c->log.fd < 0)
		return;
	container_log_append(&c->log, (uint64_t)clock_wall_ns(), which, data, len);
	c->log_records++;
}

static void unlist(struct containers *cs, const struct container_entry *c)
{
	size_t at = 0;

	while (at < cs->len && cs->list[at] != c)
		at++;
	if (at == cs->len)
		return;
	cs->len--;
	memmove(&cs->list[at], &cs->list[at + 1], (cs->len - at) * sizeof(cs->list[0]));
}

static void discard_folder(struct containers *cs, const char *id)
{
	int r = trash_take(cs->disk->trash_fd, cs->disk->containers_fd, id);

	if (r < 0 && r != -ENOENT)
		log_warn("remove the folder of container %s: %s", id, strerror(-r));
	keeper_empty_trash(cs->keeper);
}

void container_entry_forget(struct containers *cs, struct container_entry *c)
{
	if (c->removed)
		return;
	c->removed = true;
	unlist(cs, c);
	container_log_close(&c->log);
	c->dirfd = fd_close(c->dirfd);
	c->log.dirfd = -1;
	if (c->pins == 0)
		entry_free(c);
}

void container_processes_gone(struct containers *cs, struct container_entry *c)
{
	int r;

	free(c->user);
	free(c->cwd);
	strv_free(c->env);
	c->user = c->cwd = NULL;
	c->env = NULL;
	if (c->cgroup_fd < 0)
		return;
	c->cgroup_fd = fd_close(c->cgroup_fd);
	r = cgroup_remove(cs->cgroups, c->is.id);
	if (r < 0)
		log_warn("remove the control group of %s: %s", c->is.id, strerror(-r));
}

void containers_remove(struct containers *cs, struct container_entry *c)
{
	if (c->removed)
		return;
	container_processes_gone(cs, c);
	if (*c->folder)
		keeper_remove(cs->keeper, c->folder);
	if (container_is_kept(c))
		discard_folder(cs, c->is.id);
	container_entry_forget(cs, c);
}

void containers_forget_requests(struct containers *cs)
{
	for (size_t i = 0; i < cs->len; i++)
		cs->list[i]->remover = 0;
}

void container_pin(struct container_entry *c)
{
	c->pins++;
}

void container_unpin(struct container_entry *c)
{
	c->pins--;
	if (c->removed && c->pins == 0)
		entry_free(c);
}

void container_describe(const struct container_entry *c, struct agent_container *ret)
{
	struct cgroup_usage usage = {0};

	*ret = c->is;
	ret->attached = c->run && c->run->client.present;
	if (c->cgroup_fd < 0 || c->is.state == AGENT_CONTAINER_ENDED)
		return;
	cgroup_usage(c->cgroup_fd, &usage);
	uint32_t ours = 1 + c->helpers; /* init, and the parents of execs */
	ret->processes = usage.processes > ours ? usage.processes - ours : 0;
	ret->memory_bytes = usage.memory_bytes;
}

void container_layer(const struct container_entry *c, char ret[static CONTAINER_LAYER_SIZE])
{
	if (*c->folder)
		(void)snprintf(ret, CONTAINER_LAYER_SIZE, PATH_DISK "/runs/%s", c->folder);
	else
		(void)snprintf(
			ret, CONTAINER_LAYER_SIZE, PATH_DISK "/containers/%s/layer", c->is.id);
}
