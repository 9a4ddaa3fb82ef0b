/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mount-add: the folder's server, then the guest, then the spec in the catalog: what fails before
 * leaves nothing. mount-rm: the guest, then the spec.
 */
#include "op.h"

#include "../base/fd.h"
#include "../base/log.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct change {
	uint32_t id;
};

static int begin_change(struct op *op, struct err *e)
{
	op->state = calloc(1, sizeof(struct change));
	if (!op->state)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	if (!op->s->mounts || !op->s->machine)
		return err_set(e, ERR_WRONG_STATE, 0, "the sandbox has no machine now");
	return 0;
}

static void forget_spec(struct supervisor *s, uint32_t id)
{
	for (size_t i = 0; i < s->spec.mounts.len; i++)
		if (s->spec.mounts.list[i].id == id) {
			spec_mounts_remove(&s->spec.mounts, i);
			break;
		}
}

static void forget(struct supervisor *s, uint32_t id)
{
	forget_spec(s, id);
	if (s->mounts)
		mounts_remove(s->mounts, id);
}

static void add_failed(struct op *op, const struct err *why)
{
	struct change *c = op->state;
	struct err copy = *why;

	if (c && c->id)
		forget(op->s, c->id);
	op_fail(op, &copy);
}

static void on_unmounted(void *ctx, const struct err *why)
{
	(void)ctx;
	(void)why;
}

static void on_mounted(void *ctx, const struct err *why)
{
	struct op *op = ctx;
	struct change *c = op->state;
	struct err e;

	if (why) {
		add_failed(op, why);
	} else if (supervisor_save_spec(op->s, &e) < 0) {
		mounts_tell_guest(op->s->mounts, &c->id, 1, false, on_unmounted, NULL);
		add_failed(op, &e);
	} else {
		op_succeed(op, json_pack("{s:I}", "id", (json_int_t)c->id));
	}
}

static void on_served(void *ctx, const struct err *why)
{
	struct op *op = ctx;

	if (why)
		add_failed(op, why);
	else
		mounts_tell_guest(op->s->mounts, NULL, 0, true, on_mounted, op);
}

static int take_mount(struct op *op, struct spec_mount *ret, struct err *e)
{
	const char *host, *guest, *mode;
	int r;

	if ((r = json_get_str(op->request, "host", PATH_MAX - 1, &host, e)) < 0 ||
		(r = json_get_str(op->request, "guest", PATH_MAX - 1, &guest, e)) < 0 ||
		(r = json_get_str(op->request, "mode", 8, &mode, e)) < 0)
		return r;
	(void)json_object_set_new(op->detail, "host", json_string(host));
	(void)json_object_set_new(op->detail, "guest", json_string(guest));
	(void)json_object_set_new(op->detail, "mode", json_string(mode));
	return spec_mount_make(host, guest, mode, ret, e);
}

static int prepare(struct op *op, struct err *e)
{
	cleanup_spec_mount struct spec_mount m = {0};

	return take_mount(op, &m, e);
}

static void add(struct op *op)
{
	struct supervisor *s = op->s;
	cleanup_spec_mount struct spec_mount m = {0};
	cleanup_fd int fd = -1;
	char *path = NULL;
	struct err e;
	int r = begin_change(op, &e);

	if (r == 0)
		r = take_mount(op, &m, &e);
	/* As at create: the path that the folder has now is the one that counts. */
	if (r == 0)
		r = spec_mount_open(m.host, s->home.dirfd, &fd, &path, &e);
	if (r == 0) {
		free(m.host);
		m.host = path;
		r = spec_mounts_add(&s->spec.mounts, &m, &e);
	}
	if (r == 0) {
		struct spec_mount *added = &s->spec.mounts.list[s->spec.mounts.len - 1];
		((struct change *)op->state)->id = added->id;
		r = mounts_add(s->mounts, added, -1, &e);
	}
	if (r < 0)
		add_failed(op, &e);
	else
		mounts_when_ready(s->mounts, on_served, op);
}

static void on_gone(void *ctx, const struct err *why)
{
	struct op *op = ctx;

	if (why)
		op_fail(op, why);
	else
		op_succeed(op, NULL);
}

static void on_removed(void *ctx, const struct err *why)
{
	struct op *op = ctx;
	struct change *c = op->state;
	struct supervisor *s = op->s;
	struct err e;

	if (why) {
		op_fail(op, why);
		return;
	}
	forget_spec(s, c->id);
	if (supervisor_save_spec(s, &e) == 0) {
		mounts_remove_wait(s->mounts, c->id, on_gone, op);
		return;
	}
	mounts_remove(s->mounts, c->id);
	op_fail(op, &e);
}

static void rm(struct op *op)
{
	struct supervisor *s = op->s;
	const char *guest;
	struct err e;
	size_t at;
	int r = begin_change(op, &e);

	if (r < 0 || (r = json_get_str(op->request, "guest", PATH_MAX - 1, &guest, &e)) < 0 ||
		(r = spec_mounts_find(&s->spec.mounts, guest, &at, &e)) < 0) {
		op_fail(op, &e);
		return;
	}
	struct change *c = op->state;
	const struct spec_mount *m = &s->spec.mounts.list[at];
	c->id = m->id;
	(void)json_object_set_new(op->detail, "host", json_string(m->host));
	(void)json_object_set_new(op->detail, "guest", json_string(m->guest));
	mounts_tell_guest(s->mounts, &c->id, 1, true, on_removed, op);
}

static void release(struct op *op)
{
	free(op->state);
}

const struct op_kind op_mount_add = {.name = "mount-add",
	.action = "mount.add",
	.exclusive = true,
	.prepare = prepare,
	.start = add,
	.release = release};
const struct op_kind op_mount_rm = {.name = "mount-rm",
	.action = "mount.rm",
	.exclusive = true,
	.start = rm,
	.release = release};
