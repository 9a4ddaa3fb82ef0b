/* SPDX-License-Identifier: Apache-2.0 */
#include "mount-diff.h"

#include "output.h"

#include "../base/fd.h"
#include "../base/text.h"
#include "../proto/client.h"
#include "../store/spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int out_of_memory(struct err *e)
{
	return err_set(e, ERR_IO, ENOMEM, "out of memory");
}

void mount_diff_release(struct mount_diff *d)
{
	for (size_t i = 0; i < d->len; i++) {
		free(d->list[i].path);
		free(d->list[i].target);
	}
	free(d->list);
	free(d->guest);
	if (d->host) {
		d->root = fd_close(d->root);
		d->file = fd_close(d->file);
	}
	free(d->host);
	*d = (struct mount_diff){.root = -1, .file = -1};
}

static int find_mount(const struct context *c, const struct sandbox *s, const char *guest,
	struct mount_diff *d, struct err *e)
{
	cleanup_spec struct spec spec;
	size_t i;
	int r;

	spec_init(&spec);
	if ((r = spec_decode(s->row.spec, &spec, e)) < 0 ||
		(r = spec_mounts_find(&spec.mounts, guest, &i, e)) < 0)
		return r;
	const struct spec_mount *m = &spec.mounts.list[i];
	if (m->mode != AGENT_MOUNT_COW)
		return err_set(e, ERR_INVALID, 0,
			"%.200s is mounted %s: what is written there is on the host at once", guest,
			mount_mode_name(m->mode));
	d->id = m->id;
	d->guest = strdup(m->guest);
	d->host = strdup(m->host);
	if (!d->guest || !d->host)
		return out_of_memory(e);
	return spec_mount_open(m->host, c->home.dirfd, &d->root, NULL, e);
}

static int compare(const struct context *c, const struct sandbox *s, struct mount_diff *d,
	struct copy_io *io, struct err *e)
{
	cleanup_connection struct connection con = {.fd = -1};
	cleanup_json *request = copy_request(c, "upper", "", "", "", false, d->id);
	struct tree_sink sink = mount_compare_sink;
	int r;

	if (!request)
		return out_of_memory(e);
	if ((r = connection_open(s, &con, e)) < 0)
		return r;
	d->skipped.progress = io->progress;
	sink.ctx = d;
	io->sink = &sink;
	r = copy_run(&con, request, io, e);
	io->sink = NULL;
	return r < 0 ? r : mount_compare_end(d, e);
}

int mount_diff_get(const struct context *c, const struct sandbox *s, const char *guest,
	struct mount_diff *ret, struct copy_io *io, struct err *e)
{
	cleanup_mount_diff struct mount_diff d = {.root = -1, .file = -1};
	int r = find_mount(c, s, guest, &d, e);

	if (r == 0)
		r = compare(c, s, &d, io, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < d.len; i++)
		d.list[i].selected = d.list[i].kind != CHANGE_NONE;
	*ret = d;
	d = (struct mount_diff){.root = -1, .file = -1};
	return 0;
}

static const char *const letters[] = {
	[CHANGE_ADDED] = "A", [CHANGE_CHANGED] = "C", [CHANGE_REMOVED] = "D"};
static const char *const names[] = {
	[CHANGE_ADDED] = "added", [CHANGE_CHANGED] = "changed", [CHANGE_REMOVED] = "removed"};

size_t mount_diff_print(const struct mount_diff *d, bool question)
{
	size_t count = 0;

	for (size_t i = 0; i < d->len; i++) {
		const struct change *c = &d->list[i];
		if (!c->selected)
			continue;
		count++;
		if (question)
			output_notice("%s %s", letters[c->kind], c->path);
		else
			output_line("%s %s", letters[c->kind], c->path);
	}
	return count;
}

static const char *type_name(enum tree_type type)
{
	return type == TREE_DIR ? "folder" : type == TREE_SYMLINK ? "link" : "file";
}

/* A string, or {"hex": ...} for what is no text. */
static json_t *bytes(char *s)
{
	char *v[] = {s, NULL};
	cleanup_json *one = client_bytes_encode(v);

	return json_incref(json_array_get(one, 0));
}

json_t *mount_diff_json(const struct mount_diff *d)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < d->len; i++) {
		const struct change *c = &d->list[i];
		if (c->selected &&
			json_array_append_new(
				list, json_pack("{s:o, s:s, s:s, s:I}", "path", bytes(c->path),
					      "change", names[c->kind], "type", type_name(c->type),
					      "size", (json_int_t)c->size)) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}
