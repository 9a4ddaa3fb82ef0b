/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start: the first operation, on the socketpair of the client that started this process.
 *
 *   mode new      a new sandbox: a first disk layer on the template's disk
 *   mode boot     a stopped or crashed one: the template's RAM again, with the sandbox's own disk
 *   mode rewind   a stopped or crashed one, straight to a checkpoint (op-rewind.c)
 *
 * new and boot: ports -> servers of the mounts -> template -> machine -> RESUMED -> CONFIGURE ->
 * MOUNT -> catalog.
 */
#include "op.h"

#include "layer-tree.h"
#include "rewind.h"

#include "../base/fd.h"
#include "../base/hash.h"
#include "../base/log.h"
#include "../proto/agent.h"
#include "../vm/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct start {
	char layer[CATALOG_ID_SIZE]; /* the writable one */
	bool made_layer;
};

static void notice(const char *text, void *ctx)
{
	op_notice(ctx, text);
}

/* A start that failed ends the process: nothing of it is left but what was there before. */
static void failed(struct op *op, const struct err *why)
{
	struct supervisor *s = op->s;
	struct start *st = op->state;
	enum sandbox_state before =
		s->row.state == SANDBOX_CREATING ? SANDBOX_CREATING : SANDBOX_STOPPED;
	struct err copy = *why, e;

	(void)uv_timer_stop(&s->timer);
	mounts_free(s->mounts);
	s->mounts = NULL;
	machine_free(s->machine);
	s->machine = NULL;
	if (st && st->made_layer && layer_remove(s->layers_dirfd, st->layer, &e) < 0)
		log_warn("%s", e.what);
	supervisor_end(s, before, NULL, &copy, op);
	op_fail(op, &copy);
}

void op_start_died(struct supervisor *s, const struct err *why)
{
	for (struct op *op = s->ops; op; op = op->next)
		if (op->kind == &op_start && op->active) {
			failed(op, why);
			return;
		}
}

/* A restored agent that does not answer within this time does not at all. */
#define ANSWER_MS 60000

static void on_timeout(uv_timer_t *timer)
{
	struct err e;

	(void)err_set(&e, ERR_TIMEOUT, 0, "the guest does not answer");
	op_start_died(timer->data, &e);
}

static void started(struct op *op)
{
	struct supervisor *s = op->s;
	struct start *st = op->state;
	struct err e;
	int r;

	(void)uv_timer_stop(&s->timer);
	if (st->made_layer)
		r = catalog_sandbox_started(s->catalog, s->row.id, st->layer, &e);
	else
		r = catalog_sandbox_set_state(s->catalog, s->row.id, SANDBOX_RUNNING, NULL, &e);
	if (r < 0) {
		failed(op, &e);
		return;
	}
	s->state = SUPERVISOR_RUNNING;
	supervisor_open_ports(s);
	op_succeed(op, json_pack("{s:i}", "epoch", (int)machine_epoch(s->machine)));
}

static void on_mounted(void *ctx, const struct err *why)
{
	if (why)
		failed(ctx, why);
	else
		started(ctx);
}

static void on_configured(void *ctx, const struct agent_reply *reply)
{
	struct op *op = ctx;
	struct err e;

	if (!reply) {
		(void)err_set(&e, ERR_CANCELLED, 0, "the VM ended while it was set up");
		failed(op, &e);
	} else if (reply->status != 0) {
		(void)err_set(&e, ERR_IO, (int)(reply->status & 0xfff),
			"the guest cannot be set up: %s", reply->text);
		failed(op, &e);
	} else {
		mounts_tell_guest(op->s->mounts, NULL, 0, true, on_mounted, op);
	}
}

void op_start_ready(struct supervisor *s)
{
	struct op *op = s->ops;
	struct agent_configure c = {0};
	cleanup_buf struct buf b = {0};
	struct err e;

	while (op && !(op->kind == &op_start && op->active))
		op = op->next;
	if (!op)
		return;

	(void)snprintf(c.hostname, sizeof(c.hostname), "%s", s->row.name);
	random_bytes(c.machine_id, sizeof(c.machine_id));
	buf_init(&b, 256);
	agent_configure_encode(&b, &c);
	if (channel_request(
		    machine_channel(s->machine), AGENT_CONFIGURE, &b, on_configured, op, &e) < 0)
		failed(op, &e);
	else
		machine_kick(s->machine);
}

/* What a crash or a command without a supervisor left behind. */
static void tidy(struct supervisor *s)
{
	bool merging;
	struct err e;

	layer_tree_sweep(s);
	if (layer_tree_collect(s, &merging, &e) < 0)
		log_warn("unused disk layers stay for now: %s", e.what);
}

static int start_machine(struct op *op, struct err *e)
{
	struct supervisor *s = op->s;
	struct start *st = op->state;
	cleanup_layer_path struct layer_path chain = {0};
	struct vm_config config = {s->spec.cpus, s->spec.memory_mb, s->spec.disk_gb};
	struct machine_source source = {.pages_fd = -1};
	int r;

	tidy(s);
	r = template_ensure(&s->host, &config, s->templates_dirfd, notice, op, &s->template, e);
	if (r < 0 || (r = layer_tree_check_base(s, &s->template, *s->row.layer == '\0', e)) < 0)
		return r;
	if (*s->row.layer == '\0') {
		random_hex(st->layer, CATALOG_ID_SIZE - 1);
		r = layer_create(
			&s->host, s->layers_dirfd, st->layer, (uint64_t)s->spec.disk_gb << 30, e);
		if (r < 0)
			return r;
		st->made_layer = true;
		r = layer_path_of(s, "", st->layer, &chain, e);
	} else {
		r = layer_path_of(s, s->row.layer, NULL, &chain, e);
	}
	if (r < 0 || (r = catalog_sandbox_next_epoch(s->catalog, s->row.id, &source.epoch, e)) < 0)
		return r;
	cleanup_fd int device = openat(s->template.dirfd, "device", O_RDONLY | O_CLOEXEC);
	if (device < 0)
		return err_errno(e, errno, "cannot open the template's device state");
	source.template = &s->template;
	source.layers = chain.ids;
	source.layers_len = chain.len;
	source.device_fd = device;
	r = supervisor_start_machine(s, &source, &s->machine, e);
	if (r == 0)
		mounts_bind(s->mounts, s->machine);
	return r;
}

/* The folders are there and served: now there may be a machine. */
static void on_served(void *ctx, const struct err *why)
{
	struct op *op = ctx;
	struct err e;

	if (why)
		failed(op, why);
	else if (start_machine(op, &e) < 0)
		failed(op, &e);
	else
		(void)uv_timer_start(&op->s->timer, on_timeout, ANSWER_MS, 0);
}

static int serve_mounts(struct op *op, struct err *e)
{
	struct supervisor *s = op->s;
	int r = supervisor_new_mounts(s, &s->mounts, e);

	for (size_t i = 0; r == 0 && i < s->spec.mounts.len; i++)
		r = mounts_add(s->mounts, &s->spec.mounts.list[i], -1, e);
	return r;
}

/* Which mounts and ports the policy that the record is bound to consists of. */
static void describe(struct op *op)
{
	const struct spec *spec = &op->s->spec;

	(void)json_object_set_new(op->bound, "policy", json_string(op->s->policy_hash));
	if (spec->mounts.len > 0)
		(void)json_object_set_new(op->detail, "mounts", spec_mounts_encode(&spec->mounts));
	if (spec->ports.len > 0)
		(void)json_object_set_new(op->detail, "ports", spec_ports_encode(&spec->ports));
}

/* The client recorded the begin, since without it nothing of this would be done; the end is ours,
 * since the client may be gone by then. */
static int prepare(struct op *op, struct err *e)
{
	json_t *record;
	int r;

	if (!json_object_get(op->request, "record"))
		return 0;
	if ((r = json_get_object(op->request, "record", &record, e)) < 0 ||
		(r = json_get_str(record, "action", 32, &op->action, e)) < 0)
		return r;
	return json_get_u64(record, "seq", INT64_MAX, &op->audit_seq, e);
}

static void begin(struct op *op)
{
	const char *mode;
	struct err e;
	int r = json_get_str(op->request, "mode", 16, &mode, &e);

	op->state = calloc(1, sizeof(struct start));
	if (r == 0 && !op->state)
		r = err_set(&e, ERR_IO, ENOMEM, "out of memory");
	if (r == 0)
		r = supervisor_open(op->s, &e);
	if (r == 0)
		r = op_port_listen_all(op->s, strcmp(mode, "new") == 0, &e);
	if (r == 0)
		describe(op);
	if (r == 0 && strcmp(mode, "rewind") == 0) {
		rewind_begin(op);
		return;
	}
	if (r == 0 && strcmp(mode, "new") != 0 && strcmp(mode, "boot") != 0)
		r = err_set(&e, ERR_PROTOCOL, 0, "no start mode \"%s\"", mode);
	if (r == 0)
		r = serve_mounts(op, &e);
	if (r < 0)
		failed(op, &e);
	else
		mounts_when_ready(op->s->mounts, on_served, op);
}

static void release(struct op *op)
{
	rewind_release(op);
	free(op->state);
}

const struct op_kind op_start = {
	.name = "start",
	.exclusive = true,
	.startup = true,
	.prepare = prepare,
	.start = begin,
	.release = release,
};
