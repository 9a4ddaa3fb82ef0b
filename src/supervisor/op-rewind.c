/* SPDX-License-Identifier: Apache-2.0 */
#include "rewind.h"

#include "layer-tree.h"
#include "checkpoint-meta.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/file.h"
#include "../base/log.h"
#include "../vm/layer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A restored agent that does not answer within this time does not at all. */
#define ANSWER_MS 60000

struct rewind {
	struct op *op;
	struct machine *next;
	struct vm_template template;
	struct checkpoint_row checkpoint;
	char layer[CATALOG_ID_SIZE]; /* the fresh one */
	bool made_layer;
	bool paused; /* the former machine stands still */
	int64_t begun_us;
	uv_timer_t timer;
};

/* At most one at a time: it is exclusive. */
static struct rewind *current;

static void on_timer_closed(uv_handle_t *handle)
{
	struct rewind *w = handle->data;

	checkpoint_row_release(&w->checkpoint);
	template_release(&w->template);
	free(w);
}

static void finish(struct rewind *w)
{
	current = NULL;
	uv_close((uv_handle_t *)&w->timer, on_timer_closed);
}

static void failed(struct rewind *w, const struct err *why)
{
	struct op *op = w->op;
	struct supervisor *s = op->s;
	struct err copy = *why, e;

	machine_free(w->next);
	w->next = NULL;
	if (w->made_layer && layer_remove(s->layers_dirfd, w->layer, &e) < 0)
		log_warn("%s", e.what);
	if (w->paused && s->machine &&
		(vm_run(machine_vm(s->machine), &e) < 0 || machine_resume(s->machine, &e) < 0))
		log_warn("the sandbox stands still: %s", e.what);
	finish(w);
	bool starting = s->state == SUPERVISOR_STARTING, lost = !starting && !s->machine;
	if (starting)
		supervisor_end(s, SANDBOX_STOPPED, NULL, &copy, op);
	else if (lost)
		supervisor_end(s, SANDBOX_CRASHED, "the VM ended during a rewind", &copy, op);
	op_fail(op, &copy);
}

void rewind_release(struct op *op)
{
	struct rewind *w = current;
	struct err e;

	if (!w || w->op != op)
		return;
	machine_free(w->next);
	if (w->made_layer && layer_remove(op->s->layers_dirfd, w->layer, &e) < 0)
		log_warn("%s", e.what);
	finish(w);
}

static void on_timeout(uv_timer_t *timer)
{
	struct err e;

	(void)err_set(&e, ERR_TIMEOUT, 0, "the rewound guest does not answer");
	failed(timer->data, &e);
}

static int open_checkpoint(struct rewind *w, struct checkpoint_meta *meta, int *ret_pages,
	int *ret_device, struct err *e)
{
	struct supervisor *s = w->op->s;
	const char *id;
	int r;

	if ((r = json_get_str(w->op->request, "checkpoint", 128, &id, e)) < 0 ||
		(r = catalog_checkpoint_find(s->catalog, s->row.id, id, &w->checkpoint, e)) < 0)
		return r;
	(void)json_object_set_new(w->op->bound, "checkpoint", json_string(w->checkpoint.hash));
	(void)json_object_set_new(w->op->detail, "checkpoint", json_string(w->checkpoint.id));
	cleanup_fd int dirfd = dir_open(s->checkpoints_dirfd, w->checkpoint.id, false, 0);
	if (dirfd < 0) {
		r = err_set(e, ERR_CORRUPT, -dirfd, "the files of checkpoint %s are missing",
			w->checkpoint.id);
		(void)err_hint(
			e, "rewind to another checkpoint (kosa8 checkpoint ls %s)", s->row.name);
		return r;
	}
	if ((r = checkpoint_meta_open(
		     dirfd, w->checkpoint.hash, &s->host, meta, ret_pages, ret_device, e)) < 0)
		return err_wrap(e, "checkpoint %s", w->checkpoint.id);
	if ((r = template_open(s->templates_dirfd, meta->template_key, &w->template, e)) < 0)
		return err_wrap(e, "checkpoint %s stands on a template", w->checkpoint.id);
	/* Pages say what differs from one RAM: over another they would be nonsense. */
	if (strcmp(meta->template_ram, w->template.ram_id) != 0) {
		(void)err_set(e, ERR_INCOMPATIBLE, 0,
			"checkpoint %s stands on a template that had to be made anew since",
			w->checkpoint.id);
		return err_hint(e, "kosa8 sandbox start %s: the disk is as it was last",
			w->op->s->row.name);
	}
	return layer_tree_check_base(s, &w->template, false, e);
}

/* The former machine stands still while the next one starts: the host's CPUs are for the new one,
 * and nothing is written that would be thrown away. */
static void pause_former(struct rewind *w)
{
	struct supervisor *s = w->op->s;
	struct err e;

	if (!s->machine)
		return;
	if (vm_pause(machine_vm(s->machine), &e) < 0)
		log_warn("the former machine is not paused: %s", e.what);
	else
		w->paused = true;
}

static int start_next(struct rewind *w, struct err *e)
{
	struct supervisor *s = w->op->s;
	cleanup_fd int pages = -1, device = -1;
	cleanup_layer_path struct layer_path chain = {0};
	struct checkpoint_meta meta;
	struct machine_source source = {0};
	int r = open_checkpoint(w, &meta, &pages, &device, e);

	if (r < 0)
		return r;
	random_hex(w->layer, CATALOG_ID_SIZE - 1);
	if ((r = layer_path_of(s, w->checkpoint.layer, w->layer, &chain, e)) < 0)
		return r;
	r = layer_create(&s->host, s->layers_dirfd, w->layer, (uint64_t)s->spec.disk_gb << 30, e);
	if (r < 0)
		return r;
	w->made_layer = true;
	if ((r = catalog_sandbox_next_epoch(s->catalog, s->row.id, &source.epoch, e)) < 0)
		return r;
	pause_former(w);
	source.template = &w->template;
	source.layers = chain.ids;
	source.layers_len = chain.len;
	source.images = meta.images;
	source.images_len = meta.images_len;
	source.pages_fd = pages;
	source.device_fd = device;
	return supervisor_start_machine(s, &source, &w->next, e);
}

void rewind_begin(struct op *op)
{
	struct rewind *w = calloc(1, sizeof(*w));
	struct err e;

	if (!w) {
		(void)err_set(&e, ERR_IO, ENOMEM, "out of memory");
		op_fail(op, &e);
		return;
	}
	w->op = op;
	w->template.dirfd = -1;
	w->begun_us = clock_mono_us();
	w->timer.data = w;
	current = w;
	(void)uv_timer_init(&op->s->loop, &w->timer);
	if (start_next(w, &e) < 0)
		failed(w, &e);
	else
		(void)uv_timer_start(&w->timer, on_timeout, ANSWER_MS, 0);
}

bool rewind_ready(struct supervisor *s, struct machine *m)
{
	struct rewind *w = current;
	char dropped[CATALOG_ID_SIZE];
	struct err e, why;

	if (!w || w->next != m)
		return false;
	if (catalog_rewound(s->catalog, s->row.id, w->checkpoint.id, w->layer, dropped, &e) < 0) {
		failed(w, &e);
		return true;
	}
	struct op *op = w->op;
	(void)err_set(&why, ERR_CANCELLED, 0, "the sandbox was rewound to checkpoint %s",
		w->checkpoint.id);
	template_release(&s->template);
	s->template = w->template;
	w->template.dirfd = -1;
	s->state = SUPERVISOR_RUNNING;
	w->next = NULL;
	supervisor_set_machine(s, m, &why);
	if (*dropped && layer_remove(s->layers_dirfd, dropped, &e) < 0)
		log_warn("%s", e.what);
	json_t *members = json_pack("{s:s, s:i, s:f}", "id", w->checkpoint.id, "epoch",
		(int)machine_epoch(m), "took_ms", (double)(clock_mono_us() - w->begun_us) / 1000);
	finish(w);
	op_succeed(op, members);
	return true;
}

bool rewind_died(struct supervisor *s, struct machine *m, const struct err *why)
{
	struct rewind *w = current;
	struct err copy = *why;

	if (w && m == s->machine) {
		/* The former one: it is about to be replaced anyway. */
		s->machine = NULL;
		machine_free(m);
		return true;
	}
	if (!w || w->next != m)
		return false;
	(void)err_wrap(&copy, "the rewound machine did not start");
	failed(w, &copy);
	return true;
}

const struct op_kind op_rewind = {
	.name = "rewind",
	.action = "rewind",
	.exclusive = true,
	.start = rewind_begin,
	.release = rewind_release,
};
