/* SPDX-License-Identifier: Apache-2.0 */
#include "layer-tree.h"

#include "../base/fd.h"
#include "../base/file.h"
#include "../base/log.h"
#include "../base/space.h"
#include "../vm/layer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void layer_path_release(struct layer_path *c)
{
	free(c->ids);
	layer_rows_release(&c->rows);
	*c = (struct layer_path){0};
}

static const struct layer_row *find(const struct layer_rows *rows, const char *id)
{
	for (size_t i = 0; i < rows->len; i++)
		if (strcmp(rows->rows[i].id, id) == 0)
			return &rows->rows[i];
	return NULL;
}

int layer_path_of(struct supervisor *s, const char *top, const char *more, struct layer_path *ret,
	struct err *e)
{
	cleanup_layer_path struct layer_path c = {0};
	const char *id = top;
	int r = catalog_layer_list(s->catalog, s->row.id, &c.rows, e);

	if (r < 0)
		return r;
	c.ids = calloc(c.rows.len + 2, sizeof(char *));
	if (!c.ids)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	if (more)
		c.ids[c.len++] = more;
	/* From the top down, then turned round. More steps than rows would be a cycle. */
	while (*id) {
		const struct layer_row *row = find(&c.rows, id);
		if (!row || c.len > c.rows.len + 1)
			return err_set(
				e, ERR_CORRUPT, 0, "the disk layer %s is not in the catalog", id);
		c.ids[c.len++] = row->id;
		id = row->parent;
	}
	for (size_t i = 0; i < c.len / 2; i++) {
		const char *swap = c.ids[i];
		c.ids[i] = c.ids[c.len - 1 - i];
		c.ids[c.len - 1 - i] = swap;
	}
	*ret = c;
	c = (struct layer_path){0};
	return 0;
}

#define DISK_ID_FILE "disk-id"

int layer_tree_check_base(
	struct supervisor *s, const struct vm_template *t, bool is_new, struct err *e)
{
	cleanup_buf struct buf b = {0};
	size_t len = strlen(t->disk_id);
	int r;

	buf_init(&b, TEMPLATE_ID_SIZE);
	if (is_new)
		r = file_write_atomic(s->dirfd, DISK_ID_FILE, t->disk_id, len, 0600, true);
	else
		r = file_read(s->dirfd, DISK_ID_FILE, &b);
	if (r == -ENOSPC)
		return space_error(s->dirfd, "the sandbox", 0, e);
	if (r < 0)
		return err_errno(e, -r, "the sandbox's record of its disk");
	if (!is_new && (b.len != len || memcmp(b.data, t->disk_id, len) != 0))
		return err_set(e, ERR_INCOMPATIBLE, 0,
			"the sandbox's disk stands on a template disk that this machine no longer "
			"has");
	return 0;
}

/* A layer that only exists for others' sake, or for none's. */
struct orphan {
	const struct layer_row *layer; /* NULL: there is none */
	const struct layer_row *child; /* the one that stands on it; NULL: none */
};

static bool is_named(const char *id, const char *current, const struct checkpoint_rows *checkpoints)
{
	if (strcmp(id, current) == 0)
		return true;
	for (size_t i = 0; i < checkpoints->len; i++)
		if (strcmp(checkpoints->rows[i].layer, id) == 0)
			return true;
	return false;
}

static struct orphan find_orphan(const struct layer_rows *layers, const char *current,
	const struct checkpoint_rows *checkpoints)
{
	for (size_t i = 0; i < layers->len; i++) {
		const struct layer_row *layer = &layers->rows[i], *child = NULL;
		size_t children = 0;
		if (is_named(layer->id, current, checkpoints))
			continue;
		for (size_t k = 0; k < layers->len; k++)
			if (strcmp(layers->rows[k].parent, layer->id) == 0) {
				child = &layers->rows[k];
				children++;
			}
		/* Two branches stand on it: it stays until one of them goes. */
		if (children < 2)
			return (struct orphan){layer, child};
	}
	return (struct orphan){0};
}

static int in_path(struct supervisor *s, const char *current, const char *id, struct err *e)
{
	cleanup_layer_path struct layer_path c = {0};
	int r = layer_path_of(s, current, NULL, &c, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < c.len; i++)
		if (strcmp(c.ids[i], id) == 0)
			return 1;
	return 0;
}

/* 1: a job of the machine was started; 0: the orphan is gone. */
static int collect_one(
	struct supervisor *s, const char *current, const struct orphan *o, struct err *e)
{
	int r;

	if (o->child) {
		r = s->machine ? in_path(s, current, o->child->id, e) : 0;
		if (r < 0)
			return r;
		if (r == 1) {
			r = vm_merge(machine_vm(s->machine), o->child->id, e);
			return r < 0 ? r : 1;
		}
		r = layer_merge(&s->host, s->layers_dirfd, o->child->id, o->layer->id, e);
		if (r < 0 || (r = catalog_layer_merged(s->catalog, o->child->id, e)) < 0)
			return r;
	} else if ((r = catalog_layer_delete(s->catalog, o->layer->id, e)) < 0) {
		return r;
	}
	return layer_remove(s->layers_dirfd, o->layer->id, e);
}

int layer_tree_collect(struct supervisor *s, bool *ret_merging, struct err *e)
{
	*ret_merging = false;
	for (;;) {
		struct layer_rows layers = {0};
		struct checkpoint_rows checkpoints = {0};
		struct sandbox_row row = {0};
		struct orphan o = {0};
		int r;

		if ((r = catalog_sandbox_get(s->catalog, s->row.id, &row, e)) == 0 &&
			(r = catalog_layer_list(s->catalog, s->row.id, &layers, e)) == 0 &&
			(r = catalog_checkpoint_list(s->catalog, s->row.id, &checkpoints, e)) ==
				0) {
			o = find_orphan(&layers, row.layer, &checkpoints);
			r = o.layer ? collect_one(s, row.layer, &o, e) : 0;
		}
		*ret_merging = r == 1;
		layer_rows_release(&layers);
		checkpoint_rows_release(&checkpoints);
		sandbox_row_release(&row);
		if (r < 0 || r == 1 || !o.layer)
			return r < 0 ? r : 0;
	}
}

int layer_tree_merged(struct supervisor *s, struct err *e)
{
	cleanup_layer_path struct layer_path c = {0};
	struct checkpoint_rows checkpoints = {0};
	struct sandbox_row row = {0};
	struct orphan o = {0};
	char child[CATALOG_ID_SIZE], parent[CATALOG_ID_SIZE];
	int r;

	/* The same question gives the same orphan: nothing else changes layers meanwhile. */
	if ((r = catalog_sandbox_get(s->catalog, s->row.id, &row, e)) == 0 &&
		(r = catalog_layer_list(s->catalog, s->row.id, &c.rows, e)) == 0 &&
		(r = catalog_checkpoint_list(s->catalog, s->row.id, &checkpoints, e)) == 0)
		o = find_orphan(&c.rows, row.layer, &checkpoints);
	if (r == 0 && (!o.layer || !o.child))
		r = err_set(e, ERR_INTERNAL, 0, "a merge ended that was not begun");
	if (r == 0) {
		memcpy(child, o.child->id, sizeof(child));
		memcpy(parent, o.layer->id, sizeof(parent));
		r = catalog_layer_merged(s->catalog, child, e);
	}
	checkpoint_rows_release(&checkpoints);
	sandbox_row_release(&row);
	return r < 0 ? r : layer_remove(s->layers_dirfd, parent, e);
}

/* Removes what is in the folder and not known; names are cut to an id's length. */
static void sweep_dir(int dirfd, bool (*known)(const char *id, const void *ctx), const void *ctx)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (!d) {
		(void)fd_close(fd);
		return;
	}
	while ((de = readdir(d))) {
		char id[CATALOG_ID_SIZE];
		if (de->d_name[0] == '.')
			continue;
		(void)snprintf(id, sizeof(id), "%.16s", de->d_name);
		bool temporary = strlen(de->d_name) > 4 &&
				 strcmp(de->d_name + strlen(de->d_name) - 4, ".tmp") == 0;
		if (known(id, ctx) && !temporary)
			continue;
		log_info("removing %s, which a crash left", de->d_name);
		if (file_remove_tree(dirfd, de->d_name) < 0)
			log_warn("cannot remove %s", de->d_name);
	}
	(void)closedir(d);
}

static bool layer_known(const char *id, const void *ctx)
{
	return find(ctx, id) != NULL;
}

static bool checkpoint_known(const char *id, const void *ctx)
{
	const struct checkpoint_rows *rows = ctx;

	for (size_t i = 0; i < rows->len; i++)
		if (strcmp(rows->rows[i].id, id) == 0)
			return true;
	return false;
}

void layer_tree_sweep(struct supervisor *s)
{
	struct layer_rows layers = {0};
	struct checkpoint_rows checkpoints = {0};
	struct err e;

	if (catalog_layer_list(s->catalog, s->row.id, &layers, &e) == 0)
		sweep_dir(s->layers_dirfd, layer_known, &layers);
	if (catalog_checkpoint_list(s->catalog, s->row.id, &checkpoints, &e) == 0)
		sweep_dir(s->checkpoints_dirfd, checkpoint_known, &checkpoints);
	layer_rows_release(&layers);
	checkpoint_rows_release(&checkpoints);
}
