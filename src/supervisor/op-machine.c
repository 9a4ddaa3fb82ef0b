/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of one step or two: status, attach, stop, destroy, checkpoint-rm. */
#include "op.h"

#include "layer-tree.h"

#include "../base/file.h"
#include "../base/log.h"
#include "../base/space.h"
#include "../base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A guest that has not powered down by then is ended. */
#define STOP_MS 15000

static void status(struct op *op)
{
	struct supervisor *s = op->s;
	struct machine *m = s->machine;
	json_t *images = json_array();
	size_t runs = 0;

	if (!m) {
		struct err e;
		json_decref(images);
		(void)err_set(&e, ERR_WRONG_STATE, 0, "the sandbox has no machine now");
		op_fail(op, &e);
		return;
	}
	for (const struct op *o = s->ops; o; o = o->next)
		runs += o->active && (o->kind == &op_run || o->kind == &op_exec);
	for (size_t i = 0; i < machine_images_len(m); i++)
		(void)json_array_append_new(
			images, json_sprintf("sha256:%s", machine_image_at(m, i)->digest));
	op_succeed(op, json_pack("{s:{s:i, s:i, s:i, s:i, s:s, s:s, s:b, s:o}}", "live", "epoch",
			       (int)machine_epoch(m), "runs", (int)runs, "supervisor_pid",
			       (int)getpid(), "qemu_pid", (int)vm_pid(machine_vm(m)), "accel",
			       vm_accel_name(s->host.accel), "qemu_version", s->host.qemu_version,
			       "waiting_for_disk_space", (int)s->disk_full, "images", images));
}

const struct op_kind op_status = {.name = "status", .immediate = true, .start = status};

static void on_attached(void *ctx, const struct err *why)
{
	struct op *op = op_ref_end(ctx);

	if (op && why)
		op_fail(op, why);
	else if (op)
		op_succeed(op, NULL);
}

static void attach(struct op *op)
{
	struct supervisor *s = op->s;
	const char *image;
	struct image_row row = {0};
	struct err e;
	int r = json_get_str(op->request, "image", 71, &image, &e);

	if (r == 0)
		r = catalog_image_find(s->catalog, image, &row, &e);
	if (r == 0) {
		(void)json_object_set_new(op->bound, "image", json_string(row.digest));
		r = catalog_sandbox_image_add(s->catalog, s->row.id, row.digest, &e);
	}
	struct op_ref *ref = r == 0 ? op_ref_new(op) : NULL;
	if (r == 0 && !ref)
		r = err_set(&e, ERR_IO, ENOMEM, "out of memory");
	if (r == 0 && (r = machine_attach(s->machine, row.digest + strlen("sha256:"), on_attached,
			       ref, &e)) < 0)
		(void)op_ref_end(ref);
	image_row_release(&row);
	if (r < 0)
		op_fail(op, &e);
}

const struct op_kind op_attach = {
	.name = "attach", .action = "image.attach", .exclusive = true, .start = attach};

/* ---- stop: SHUTDOWN; the process's end is what answers ---- */

struct stop {
	struct op *op;
	uv_timer_t timer;
};

static void on_stop_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static int no_space(struct supervisor *s, struct err *e)
{
	(void)space_error(s->layers_dirfd, "what the guest has to write before it can stop", 0, e);
	return err_hint(e,
		"free some space, then stop again; kosa8 sandbox rm --force %s throws it away",
		s->row.name);
}

static void on_stop_timeout(uv_timer_t *timer)
{
	struct stop *st = timer->data;
	struct supervisor *s = st->op->s;
	struct op *op = st->op;
	struct err why;

	if (s->disk_full) {
		/* It goes on powering down when there is space; ended now, it would lose data. */
		s->stopping = true;
		(void)no_space(s, &why);
		op_fail(op, &why);
		return;
	}
	log_warn("the guest did not power down in %d s: ended", STOP_MS / 1000);
	(void)err_set(&why, ERR_CANCELLED, 0, "the sandbox was stopped");
	supervisor_end(s, SANDBOX_STOPPED, NULL, &why, op);
	op_succeed(op, json_pack("{s:b}", "clean", 0));
}

static void on_shutdown_reply(void *ctx, const struct agent_reply *reply)
{
	(void)ctx;
	if (reply && reply->status != 0)
		log_warn("the guest powers down, but: %s", reply->text);
}

static void stop(struct op *op)
{
	struct supervisor *s = op->s;
	struct stop *st = calloc(1, sizeof(*st));
	struct err e;

	if (st && s->disk_full) {
		free(st);
		(void)no_space(s, &e);
		op_fail(op, &e);
		return;
	}
	if (!st) {
		(void)err_set(&e, ERR_IO, ENOMEM, "out of memory");
		op_fail(op, &e);
		return;
	}
	st->op = op;
	st->timer.data = st;
	op->state = st;
	(void)uv_timer_init(&s->loop, &st->timer);
	(void)uv_timer_start(&st->timer, on_stop_timeout, STOP_MS, 0);
	if (channel_request(machine_channel(s->machine), AGENT_SHUTDOWN, NULL, on_shutdown_reply,
		    op, &e) < 0)
		on_stop_timeout(&st->timer);
	else
		machine_kick(s->machine);
}

static void stop_release(struct op *op)
{
	struct stop *st = op->state;

	if (st)
		uv_close((uv_handle_t *)&st->timer, on_stop_closed);
}

bool op_stop_ended(struct supervisor *s)
{
	struct err why;

	for (struct op *op = s->ops; op; op = op->next) {
		if (op->kind != &op_stop || !op->active)
			continue;
		(void)err_set(&why, ERR_CANCELLED, 0, "the sandbox was stopped");
		supervisor_end(s, SANDBOX_STOPPED, NULL, &why, op);
		op_succeed(op, json_pack("{s:b}", "clean", 1));
		return true;
	}
	if (s->stopping) {
		(void)err_set(&why, ERR_CANCELLED, 0, "the sandbox was stopped");
		supervisor_end(s, SANDBOX_STOPPED, NULL, &why, NULL);
	}
	return s->stopping;
}

void op_stop_by_signal(struct supervisor *s)
{
	struct op *op = calloc(1, sizeof(*op));

	if (!op)
		return;
	*op = (struct op){.kind = &op_stop,
		.s = s,
		.action = op_stop.action,
		.request = json_object(),
		.bound = json_object(),
		.detail = json_object(),
		.actor = {.kind = "agent", .name = "SIGTERM", .uid = getuid(), .pid = getpid()}};
	op_submit(op);
	for (op = s->ops; op; op = op->next)
		if (op->kind == &op_stop)
			return;
	/* Not even that could be begun (its record, the state directory): whoever sends the signal
	 * would use another one next. */
	struct err why;
	(void)err_set(&why, ERR_CANCELLED, 0, "the supervisor was ended by a signal");
	supervisor_end(s, SANDBOX_STOPPED, NULL, &why, NULL);
}

const struct op_kind op_stop = {.name = "stop",
	.action = "sandbox.stop",
	.exclusive = true,
	.start = stop,
	.release = stop_release};

static void destroy(struct op *op)
{
	struct supervisor *s = op->s;
	struct err why;

	(void)err_set(&why, ERR_CANCELLED, 0, "the sandbox is being removed");
	supervisor_end(s, SANDBOX_STOPPED, NULL, &why, op);
	op_succeed(op, NULL);
}

const struct op_kind op_destroy = {
	.name = "destroy", .action = "sandbox.kill", .immediate = true, .start = destroy};

/* ---- checkpoint-rm: the row, the folder, then the layers that nobody needs now ---- */

static void collect(struct op *op)
{
	bool merging = false;
	struct err e;

	if (layer_tree_collect(op->s, &merging, &e) < 0)
		op_fail(op, &e);
	else if (!merging)
		op_succeed(op, NULL);
}

void op_checkpoint_rm_merged(struct supervisor *s, bool ok)
{
	struct op *op = s->ops;
	struct err e;
	int r = ok ? layer_tree_merged(s, &e)
		   : err_set(&e, ERR_IO, 0, "QEMU could not merge disk layers");

	while (op && !(op->active && op->kind == &op_checkpoint_rm))
		op = op->next;
	if (r < 0)
		log_warn("%s", e.what);
	if (op && r < 0)
		op_fail(op, &e);
	else if (op)
		collect(op);
}

static void checkpoint_rm(struct op *op)
{
	struct supervisor *s = op->s;
	struct checkpoint_row row = {0};
	const char *id;
	struct err e;
	int r = json_get_str(op->request, "checkpoint", 128, &id, &e);

	if (r == 0)
		r = catalog_checkpoint_find(s->catalog, s->row.id, id, &row, &e);
	if (r == 0) {
		(void)json_object_set_new(op->bound, "checkpoint", json_string(row.hash));
		(void)json_object_set_new(op->detail, "id", json_string(row.id));
		r = catalog_checkpoint_delete(s->catalog, s->row.id, row.id, &e);
	}
	if (r == 0 && (r = file_remove_tree(s->checkpoints_dirfd, row.id)) < 0)
		(void)err_errno(&e, -r, "cannot remove the checkpoint's files");
	checkpoint_row_release(&row);
	if (r < 0)
		op_fail(op, &e);
	else
		collect(op);
}

const struct op_kind op_checkpoint_rm = {.name = "checkpoint-rm",
	.action = "checkpoint.rm",
	.exclusive = true,
	.start = checkpoint_rm};
