/* SPDX-License-Identifier: Apache-2.0 */
#include "chain.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NODE_NAME_SIZE (LAYER_ID_SIZE + 1)
#define BASE_FILE "basefile"

static const char *node(const char *id, char ret[static NODE_NAME_SIZE])
{
	(void)snprintf(ret, NODE_NAME_SIZE, CHAIN_NODE "%s", id);
	return ret;
}

static const char *file_node(const char *id, char ret[static NODE_NAME_SIZE])
{
	(void)snprintf(ret, NODE_NAME_SIZE, CHAIN_FILE "%s", id);
	return ret;
}

int chain_init(struct chain *c, int layers_dirfd, uint64_t disk_bytes, const char *const *ids,
	size_t len, int64_t top_set, int64_t first_set, struct err *e)
{
	char name[LAYER_NAME_SIZE];

	*c = (struct chain){.layers_dirfd = -1, .disk_bytes = disk_bytes, .next_set = first_set};
	for (size_t i = 0; i < len; i++) {
		int r = layer_name(ids[i], name, e);
		if (r < 0)
			return r;
	}
	c->layers_dirfd = fcntl(layers_dirfd, F_DUPFD_CLOEXEC, 3);
	if (c->layers_dirfd < 0)
		return err_errno(e, errno, "the disk layers");
	if (!(c->layers = calloc(len, sizeof(*c->layers))))
		return err_errno(e, ENOMEM, "the disk layers");
	for (size_t i = 0; i < len; i++) {
		(void)snprintf(c->layers[i].id, LAYER_ID_SIZE, "%s", ids[i]);
		c->layers[i].set = i + 1 == len ? top_set : c->next_set++;
	}
	c->len = len;
	return 0;
}

void chain_release(struct chain *c)
{
	free(c->layers);
	c->layers = NULL;
	c->len = 0;
	c->layers_dirfd = fd_close(c->layers_dirfd);
}

const char *chain_top(const struct chain *c)
{
	return c->layers[c->len - 1].id;
}

void chain_sync(const struct chain *c)
{
	struct err ignored;
	cleanup_fd int fd = -1;

	if (layer_open(c->layers_dirfd, chain_top(c), false, 0, &fd, &ignored) >= 0)
		(void)fdatasync(fd);
}

/* The options of a layer's two nodes. Inline: the file node is made with it; else it is named, as
 * blockdev-reopen wants it. It is writable as far as the layer is: said explicitly, that would stay
 * so when the layer is frozen. below NULL: no backing node. */
static json_t *layer_options(
	const char *id, int64_t set, bool writable, bool inline_file, const char *below)
{
	char name[NODE_NAME_SIZE], file_name[NODE_NAME_SIZE], path[40];
	json_t *file;

	(void)snprintf(path, sizeof(path), "/dev/fdset/%lld", (long long)set);
	file = inline_file ? json_pack("{s:s, s:s, s:s, s:s, s:s}", "driver", "file", "node-name",
				     file_node(id, file_name), "filename", path, "locking", "off",
				     "discard", "unmap")
			   : json_string(file_node(id, file_name));
	return json_pack("{s:s, s:s, s:b, s:s, s:o?, s:o}", "driver", "qcow2", "node-name",
		node(id, name), "read-only", !writable, "discard", "unmap", "backing",
		below ? json_string(below) : json_null(), "file", file);
}

char *chain_top_options(const char *top, int64_t set)
{
	cleanup_json *options = layer_options(top, set, true, true, NULL);

	return options ? json_dumps(options, JSON_COMPACT) : NULL;
}

static int add_fd(struct qmp *q, int64_t set, int fd, const char *access, struct err *e)
{
	return qmp_call(q, "add-fd",
		json_pack("{s:I, s:s}", "fdset-id", (json_int_t)set, "opaque", access), fd, NULL,
		e);
}

static int add_file(
	struct chain *c, struct qmp *q, const char *id, int64_t set, bool writable, struct err *e)
{
	cleanup_fd int fd = -1;
	int r = layer_open(c->layers_dirfd, id, writable, c->disk_bytes, &fd, e);

	return r < 0 ? r : add_fd(q, set, fd, writable ? "rw" : "ro", e);
}

static int open_base(struct chain *c, struct qmp *q, int base_fd, struct err *e)
{
	int64_t set = c->next_set++;
	char path[40];

	int r = add_fd(q, set, base_fd, "ro", e);
	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "/dev/fdset/%lld", (long long)set);
	return qmp_call(q, "blockdev-add",
		json_pack("{s:s, s:s, s:b, s:{s:s, s:s, s:s, s:s, s:b}}", "driver", "raw",
			"node-name", CHAIN_BASE, "read-only", 1, "file", "driver", "file",
			"node-name", BASE_FILE, "filename", path, "locking", "off", "read-only", 1),
		QMP_FD_NONE, NULL, e);
}

static int link_all(struct chain *c, struct qmp *q, struct err *e)
{
	json_t *list = json_array();
	char below[NODE_NAME_SIZE];

	for (size_t i = c->len; i-- > 0;) {
		const char *under = i > 0 ? node(c->layers[i - 1].id, below) : CHAIN_BASE;
		(void)json_array_append_new(
			list, layer_options(c->layers[i].id, 0, i + 1 == c->len, false, under));
	}
	return qmp_call(
		q, "blockdev-reopen", json_pack("{s:o}", "options", list), QMP_FD_NONE, NULL, e);
}

int chain_open(struct chain *c, struct qmp *q, int base_fd, struct err *e)
{
	int r = open_base(c, q, base_fd, e);

	for (size_t i = 0; r >= 0 && i + 1 < c->len; i++) {
		const struct chain_layer *l = &c->layers[i];
		if ((r = add_file(c, q, l->id, l->set, false, e)) >= 0)
			r = qmp_call(q, "blockdev-add",
				layer_options(l->id, l->set, false, true, NULL), QMP_FD_NONE, NULL,
				e);
	}
	return r < 0 ? r : link_all(c, q, e);
}

/* A node and all descriptors of its file, for good. Best effort: what stays does no harm. */
static void drop(struct qmp *q, const char *id, int64_t set)
{
	char name[NODE_NAME_SIZE];
	struct err e;

	(void)!qmp_call(q, "blockdev-del", json_pack("{s:s}", "node-name", node(id, name)),
		QMP_FD_NONE, NULL, &e);
	(void)!qmp_call(q, "remove-fd", json_pack("{s:I}", "fdset-id", (json_int_t)set),
		QMP_FD_NONE, NULL, &e);
}

static int snapshot(struct chain *c, struct qmp *q, const char *id, struct err *e)
{
	char old[NODE_NAME_SIZE], new[NODE_NAME_SIZE];

	return qmp_call(q, "blockdev-snapshot",
		json_pack("{s:s, s:s}", "node", node(chain_top(c), old), "overlay", node(id, new)),
		QMP_FD_NONE, NULL, e);
}

int chain_push(struct chain *c, struct qmp *q, const char *id, struct err *e)
{
	char name[LAYER_NAME_SIZE];
	int64_t set = c->next_set++;
	int r = layer_name(id, name, e);

	if (r < 0)
		return r;
	struct chain_layer *layers = realloc(c->layers, (c->len + 1) * sizeof(*layers));
	if (!layers)
		return err_errno(e, ENOMEM, "the disk layers");
	c->layers = layers;
	if ((r = add_file(c, q, id, set, true, e)) < 0 ||
		(r = add_file(c, q, id, set, false, e)) < 0 ||
		(r = qmp_call(q, "blockdev-add", layer_options(id, set, true, true, NULL),
			 QMP_FD_NONE, NULL, e)) < 0 ||
		(r = snapshot(c, q, id, e)) < 0) {
		drop(q, id, set);
		return r;
	}
	c->old_top_set = c->layers[c->len - 1].set;
	c->layers[c->len] = (struct chain_layer){.set = set};
	(void)snprintf(c->layers[c->len].id, LAYER_ID_SIZE, "%s", id);
	c->len++;
	return 0;
}

/* QEMU's number of the writable descriptor in a set, or -1. */
static json_int_t find_writable(const json_t *sets, int64_t set)
{
	size_t i, j;
	json_t *s, *fd;

	json_array_foreach (sets, i, s) {
		if (json_integer_value(json_object_get(s, "fdset-id")) != set)
			continue;
		json_array_foreach (json_object_get(s, "fds"), j, fd) {
			const char *access = json_string_value(json_object_get(fd, "opaque"));
			if (access && strcmp(access, "rw") == 0)
				return json_integer_value(json_object_get(fd, "fd"));
		}
	}
	return -1;
}

static int close_writable(struct qmp *q, int64_t set, struct err *e)
{
	cleanup_json *sets = NULL;
	int r = qmp_call(q, "query-fdsets", NULL, QMP_FD_NONE, &sets, e);

	if (r < 0)
		return r;
	json_int_t fd = find_writable(sets, set);
	if (fd < 0)
		return 0;
	return qmp_call(q, "remove-fd",
		json_pack("{s:I, s:I}", "fdset-id", (json_int_t)set, "fd", fd), QMP_FD_NONE, NULL,
		e);
}

int chain_close_old_top(struct chain *c, struct qmp *q, struct err *e)
{
	int64_t set = c->old_top_set;

	c->old_top_set = 0;
	return set ? close_writable(q, set, e) : 0;
}

static size_t find(const struct chain *c, const char *id)
{
	for (size_t i = 0; i < c->len; i++)
		if (strcmp(c->layers[i].id, id) == 0)
			return i;
	return c->len;
}

int chain_merge(struct chain *c, struct qmp *q, const char *child, struct err *e)
{
	char top[NODE_NAME_SIZE], below[NODE_NAME_SIZE];
	size_t i = find(c, child);
	int r;

	if (i == c->len || i == 0)
		return err_set(e, ERR_INVALID, 0, "the layer %s stands on no layer here", child);
	if (c->merging[0])
		return err_set(e, ERR_WRONG_STATE, 0, "a layer is being merged already");
	if (i + 1 < c->len && (r = add_file(c, q, child, c->layers[i].set, true, e)) < 0)
		return r; /* a frozen layer: the job writes to it */
	/* backing-file "": QEMU would write a name into the layer's header. */
	r = qmp_call(q, "block-stream",
		json_pack("{s:s, s:s, s:s, s:s}", "job-id", CHAIN_MERGE_JOB, "device",
			node(child, top), "base-node",
			i > 1 ? node(c->layers[i - 2].id, below) : CHAIN_BASE, "backing-file", ""),
		QMP_FD_NONE, NULL, e);
	if (r >= 0)
		(void)snprintf(c->merging, sizeof(c->merging), "%s", child);
	return r;
}

int chain_merge_ended(struct chain *c, struct qmp *q, bool ok, struct err *e)
{
	size_t i = find(c, c->merging);
	bool frozen = i + 1 < c->len;
	int r = 0;

	if (i == c->len || i == 0)
		return err_set(e, ERR_PROTOCOL, 0, "QEMU reports a merge that is not under way");
	c->merging[0] = '\0';
	if (frozen)
		r = close_writable(q, c->layers[i].set, e);
	if (!ok)
		return r;
	struct chain_layer parent = c->layers[i - 1];
	memmove(&c->layers[i - 1], &c->layers[i], (c->len - i) * sizeof(parent));
	c->len--;
	drop(q, parent.id, parent.set);
	return r;
}
