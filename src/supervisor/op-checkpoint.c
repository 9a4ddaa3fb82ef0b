/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint: the state of the machine as of one moment.
 *
 *   1  a fresh disk layer and the checkpoint's folder (ID.tmp) are made; the guest goes on
 *   2  QUIESCE; QUIESCED or QUIESCE_MS later:
 *   3  pause; changed pages and device state are written, the disk layer is frozen; run, RESUME
 *   4  off the loop: hashes, meta.json; then the folder gets its name and the catalog its row:
 *      from here on the checkpoint exists, and the client is told
 *   5  off the loop: fsync of all; then the catalog says "durable"
 *
 * A crash before 4 leaves a folder ID.tmp (removed at the next start) and at most one disk layer
 * more in the chain.
 */
#include "op.h"

#include "layer-tree.h"
#include "checkpoint-meta.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/file.h"
#include "../base/log.h"
#include "../base/text.h"
#include "../vm/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A guest that does not stand still by then is checkpointed as it is. */
#define QUIESCE_MS 500

struct checkpoint {
	struct op *op; /* NULL once the client was answered */
	struct supervisor *s;
	struct checkpoint_row row;
	char label[129];
	char temp[CATALOG_ID_SIZE + 4];
	char layer[CATALOG_ID_SIZE]; /* the new writable one */
	bool made_layer;
	int dirfd, pages_fd, device_fd;
	uint32_t quiesce;
	int64_t begun_us, quiesced_us, paused_us, run_us;
	struct vm_capture capture;
	struct checkpoint_meta meta;
	uv_timer_t timer;
	uv_work_t work;
	int work_result;
	struct err work_err;
};

/* At most one at a time: it is exclusive. (Step 5 of an earlier one may still go on.) */
static struct checkpoint *quiescing;

static void on_timer_closed(uv_handle_t *handle)
{
	struct checkpoint *c = handle->data;

	(void)fd_close(c->dirfd);
	(void)fd_close(c->pages_fd);
	(void)fd_close(c->device_fd);
	free(c);
}

static void finish(struct checkpoint *c)
{
	uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}

static void discard_files(struct checkpoint *c)
{
	struct err e;

	(void)file_remove_tree(c->s->checkpoints_dirfd, c->temp);
	if (c->made_layer && layer_remove(c->s->layers_dirfd, c->layer, &e) < 0)
		log_warn("%s", e.what);
}

static void failed(struct checkpoint *c, const struct err *why)
{
	struct err copy = *why;

	discard_files(c);
	(void)err_wrap(&copy, "no checkpoint was made");
	if (c->op)
		op_fail(c->op, &copy);
	finish(c);
}

static int open_file(struct checkpoint *c, const char *name, int *ret, struct err *e)
{
	*ret = openat(c->dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return *ret < 0 ? err_errno(e, errno, "cannot make the checkpoint's files") : 0;
}

static int prepare_files(struct checkpoint *c, struct err *e)
{
	struct supervisor *s = c->s;
	int r;

	random_hex(c->row.id, CATALOG_ID_SIZE - 1);
	random_hex(c->layer, CATALOG_ID_SIZE - 1);
	(void)snprintf(c->temp, sizeof(c->temp), "%s.tmp", c->row.id);
	c->dirfd = dir_open(s->checkpoints_dirfd, c->temp, true, 0700);
	if (c->dirfd < 0)
		return err_errno(e, -c->dirfd, "cannot make the checkpoint's folder");
	if ((r = open_file(c, "pages", &c->pages_fd, e)) < 0 ||
		(r = open_file(c, "device", &c->device_fd, e)) < 0)
		return r;
	r = layer_create(&s->host, s->layers_dirfd, c->layer, (uint64_t)s->spec.disk_gb << 30, e);
	c->made_layer = r == 0;
	return r;
}

/* Step 3's record: the frozen layer, and that the new one is the writable one now. It is made
 * before the guest writes to the new layer. */
static int push_layer(struct checkpoint *c, struct err *e)
{
	struct sandbox_row row = {0};
	int r = catalog_sandbox_get(c->s->catalog, c->s->row.id, &row, e);

	if (r == 0) {
		memcpy(c->row.layer, row.layer, sizeof(c->row.layer));
		memcpy(c->row.parent, row.checkpoint, sizeof(c->row.parent));
		r = catalog_layer_push(c->s->catalog, c->s->row.id, c->layer, e);
	}
	sandbox_row_release(&row);
	return r;
}

static int capture(struct checkpoint *c, struct err *e)
{
	struct vm *vm = machine_vm(c->s->machine);
	bool moved = false;
	struct err later;
	int r = vm_capture(vm, c->pages_fd, c->device_fd, c->layer, &c->capture, &moved, e);

	if (moved) {
		c->made_layer = false; /* it is the sandbox's now, whatever becomes of us */
		int p = push_layer(c, r < 0 ? &later : e);
		if (r == 0)
			r = p;
		else if (p < 0)
			log_warn("%s", later.what);
	}
	return r;
}

static void hash_and_name(uv_work_t *work)
{
	struct checkpoint *c = work->data;

	c->work_result = checkpoint_meta_write(&c->meta, c->dirfd, c->row.hash, &c->work_err);
}

static void make_durable(uv_work_t *work)
{
	static const char *const names[] = {"pages", "device", "meta.json"};
	struct checkpoint *c = work->data;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		cleanup_fd int fd = openat(c->dirfd, names[i], O_RDONLY | O_CLOEXEC);
		if (fd < 0 || fsync(fd) < 0)
			c->work_result = -errno;
	}
	char name[CATALOG_ID_SIZE + 8];
	(void)snprintf(name, sizeof(name), "%s.qcow2", c->row.layer);
	cleanup_fd int layer = openat(c->s->layers_dirfd, name, O_RDONLY | O_CLOEXEC);
	if (layer < 0 || fsync(layer) < 0)
		c->work_result = -errno;
	if (dir_sync(c->dirfd) < 0 || dir_sync(c->s->checkpoints_dirfd) < 0 ||
		dir_sync(c->s->layers_dirfd) < 0)
		c->work_result = -EIO;
}

static void on_durable(uv_work_t *work, int status)
{
	struct checkpoint *c = work->data;
	struct err e;

	if (status < 0 || c->work_result < 0)
		log_warn("checkpoint %s is not known to be on disk", c->row.id);
	else if (catalog_checkpoint_set_durable(c->s->catalog, c->row.id, &e) < 0)
		log_warn("%s", e.what);
	finish(c);
}

static json_t *result_of(const struct checkpoint *c)
{
	return json_pack("{s:s, s:s?, s:s, s:f, s:f, s:I, s:I, s:I}", "id", c->row.id, "label",
		c->row.label, "hash", c->row.hash, "pause_ms", (double)c->row.pause_us / 1000,
		"return_ms", (double)(clock_mono_us() - c->begun_us) / 1000, "size_bytes",
		(json_int_t)c->row.size_bytes, "pages", (json_int_t)c->capture.pages, "zero_pages",
		(json_int_t)c->capture.zero_pages);
}

/* Step 4's end: the name, then the row. */
static int commit(struct checkpoint *c, struct err *e)
{
	struct supervisor *s = c->s;
	uint64_t layer_bytes = 0;
	int r;

	if (layer_size(s->layers_dirfd, c->row.layer, &layer_bytes, e) < 0)
		layer_bytes = 0;
	c->row.created_ns = clock_wall_ns();
	c->row.pause_us = (uint64_t)(c->run_us - c->begun_us);
	c->row.size_bytes = c->capture.pages_bytes + c->capture.device_bytes + layer_bytes;
	if (renameat(s->checkpoints_dirfd, c->temp, s->checkpoints_dirfd, c->row.id) < 0)
		return err_errno(e, errno, "cannot name the checkpoint's folder");
	r = catalog_checkpoint_add(s->catalog, s->row.id, &c->row, e);
	if (r < 0)
		(void)file_remove_tree(s->checkpoints_dirfd, c->row.id);
	return r;
}

static void on_hashed(uv_work_t *work, int status)
{
	struct checkpoint *c = work->data;
	struct op *op = c->op;
	struct err e;
	int r = c->work_result;

	if (status < 0)
		r = err_errno(&c->work_err, -status, "cannot hash the checkpoint");
	e = c->work_err;
	if (r == 0)
		r = commit(c, &e);
	if (r < 0) {
		failed(c, &e);
		return;
	}
	if (op) {
		(void)json_object_set_new(op->bound, "checkpoint", json_string(c->row.hash));
		(void)json_object_set_new(op->detail, "id", json_string(c->row.id));
		op_succeed(op, result_of(c));
	}
	c->work_result = 0;
	if (uv_queue_work(&c->s->loop, &c->work, make_durable, on_durable) < 0)
		finish(c);
}

/* Step 3. */
static void take(struct checkpoint *c)
{
	struct supervisor *s = c->s;
	struct vm *vm = machine_vm(s->machine);
	struct err e, later;

	quiescing = NULL;
	(void)uv_timer_stop(&c->timer);
	c->quiesced_us = clock_mono_us();
	for (size_t i = 0; i < machine_images_len(s->machine); i++)
		c->meta.images[c->meta.images_len++] = *machine_image_at(s->machine, i);
	int r = vm_pause(vm, &e);
	c->paused_us = clock_mono_us();
	if (r == 0)
		r = capture(c, &e);
	int run = vm_run(vm, r < 0 ? &later : &e);
	if (run == 0)
		run = machine_resume(s->machine, r < 0 ? &later : &e);
	c->run_us = clock_mono_us();
	log_debug("checkpoint: quiesce %lld us, scan %lld, copy %lld, device %lld, disk %lld, "
		  "paused %lld",
		(long long)(c->quiesced_us - c->begun_us), (long long)c->capture.scan_us,
		(long long)c->capture.copy_us, (long long)c->capture.device_us,
		(long long)c->capture.disk_us, (long long)(c->run_us - c->paused_us));
	if (r == 0)
		r = run;
	if (r < 0) {
		failed(c, &e);
		return;
	}
	memcpy(c->meta.layer, c->row.layer, sizeof(c->meta.layer));
	if ((r = uv_queue_work(&s->loop, &c->work, hash_and_name, on_hashed)) < 0) {
		(void)err_errno(&e, -r, "cannot hash the checkpoint");
		failed(c, &e);
	}
}

static void on_quiesce_timeout(uv_timer_t *timer)
{
	struct checkpoint *c = timer->data;

	log_info("the guest does not stand still: checkpointing it as it is");
	take(c);
}

void op_checkpoint_quiesced(struct supervisor *s, uint32_t number)
{
	(void)s;
	if (quiescing && quiescing->quiesce == number)
		take(quiescing);
}

/* The operation ended: it was answered, or the machine ended while it was under way. */
static void release(struct op *op)
{
	struct checkpoint *c = op->state;

	if (!c)
		return;
	c->op = NULL;
	if (quiescing != c)
		return;
	quiescing = NULL;
	discard_files(c);
	finish(c);
}

static int check_label(struct op *op, const char **ret, struct err *e)
{
	int r = json_get_str_or(op->request, "label", 128, NULL, ret, e);

	if (r < 0 || !*ret)
		return r;
	if (!text_is_label(*ret))
		return err_set(e, ERR_INVALID, 0, "a label is 1 to 128 bytes of printable text");
	return catalog_label_check(op->s->catalog, op->s->row.id, *ret, e);
}

static void begin(struct op *op)
{
	struct supervisor *s = op->s;
	struct checkpoint *c = calloc(1, sizeof(*c));
	const char *label;
	struct err e;

	if (!c) {
		(void)err_set(&e, ERR_IO, ENOMEM, "out of memory");
		op_fail(op, &e);
		return;
	}
	op->state = c;
	c->op = op;
	c->s = s;
	c->dirfd = c->pages_fd = c->device_fd = -1;
	c->timer.data = c->work.data = c;
	(void)uv_timer_init(&s->loop, &c->timer);
	checkpoint_meta_init(&c->meta, &s->host, &s->template);
	if (check_label(op, &label, &e) < 0 || prepare_files(c, &e) < 0) {
		failed(c, &e);
		return;
	}
	if (label) {
		(void)snprintf(c->label, sizeof(c->label), "%s", label);
		c->row.label = c->label;
		(void)json_object_set_new(op->detail, "label", json_string(label));
	}
	quiescing = c;
	c->begun_us = clock_mono_us();
	c->quiesce = machine_quiesce(s->machine);
	(void)uv_timer_start(&c->timer, on_quiesce_timeout, QUIESCE_MS, 0);
}

const struct op_kind op_checkpoint = {
	.name = "checkpoint",
	.action = "checkpoint",
	.exclusive = true,
	.start = begin,
	.release = release,
};
