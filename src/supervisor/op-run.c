/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run: a new container, for one client or detached. While the session is PREPARING, the image's LUN
 * is given to the VM and mounted in the guest.
 */
#include "session.h"

#include "agent-view.h"
#include "image-config.h"

#include "../base/clock.h"
#include "../base/hash.h"
#include "../base/text.h"
#include "../proto/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ID_LEN 12

struct run {
	struct session session;
	struct client_run spec; /* its strings are the request's */
	struct agent_run message;
};

static int send_run(struct run *r, struct err *e)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, FRAME_PAYLOAD_MAX);
	r->message.wall_ns = (uint64_t)clock_wall_ns();
	agent_run_encode(&b, &r->message);
	return session_open(&r->session, &b, e);
}

static void on_attached(void *ctx, const struct err *why)
{
	struct op *op = op_ref_end(ctx);
	struct err e;

	if (!op)
		return;
	if (why)
		op_fail(op, why);
	else if (send_run(op->state, &e) < 0)
		op_fail(op, &e);
}

static int set_limits(struct run *r, struct err *e)
{
	const struct client_run *spec = &r->spec;
	struct agent_run *m = &r->message;

	m->flags = (spec->stdin_open ? AGENT_STDIN_OPEN : 0) | (spec->tty ? AGENT_TTY : 0) |
		   (spec->detach ? AGENT_KEEP : 0);
	m->timeout_ms = spec->timeout_ms;
	m->memory_bytes = spec->memory_bytes;
	m->pids = (uint32_t)spec->pids;
	m->cpu_milli = (uint32_t)spec->cpu_milli;
	m->size = (struct agent_size){(uint16_t)spec->rows, (uint16_t)spec->columns};
	m->name = strdup(spec->name ? spec->name : "");
	m->image_name = strdup(spec->image_name ? spec->image_name : "");
	return m->name && m->image_name ? 0 : err_set(e, ERR_IO, ENOMEM, "out of memory");
}

static int compose(struct run *r, struct err *e)
{
	struct supervisor *s = r->session.op->s;
	struct image_row image = {0};
	char id[ID_LEN + 1];
	int ret = catalog_image_find(s->catalog, r->spec.image, &image, e);

	if (ret < 0)
		return ret;
	ret = image_config_apply(image.config, s->spec.env, &r->spec, &r->message, e);
	image_row_release(&image);
	if (ret < 0)
		return ret;
	random_hex(id, ID_LEN);
	r->message.id = strdup(id);
	r->message.image = strdup(r->spec.image + strlen("sha256:"));
	r->message.hostname = strdup(s->row.name);
	if (!r->message.id || !r->message.image || !r->message.hostname)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	(void)json_object_set_new(r->session.op->detail, "id", json_string(id));
	return set_limits(r, e);
}

/* An image counts as used by the sandbox from its first run there. */
static int note_use(struct run *r, struct err *e)
{
	struct supervisor *s = r->session.op->s;

	for (size_t i = 0; i < machine_images_len(s->machine); i++)
		if (strcmp(machine_image_at(s->machine, i)->digest, r->message.image) == 0)
			return 0;
	return catalog_sandbox_image_add(s->catalog, s->row.id, r->spec.image, e);
}

static void begin(struct op *op)
{
	struct run *r = op->state;
	struct op_ref *ref = NULL;
	struct err e;
	int ret;

	session_begin(&r->session);
	if ((ret = compose(r, &e)) == 0 && (ret = note_use(r, &e)) == 0 && !(ref = op_ref_new(op)))
		ret = err_set(&e, ERR_IO, ENOMEM, "out of memory");
	if (ret == 0) {
		ret = machine_attach(op->s->machine, r->message.image, on_attached, ref, &e);
		if (ret < 0)
			(void)op_ref_end(ref);
	}
	if (ret < 0)
		op_fail(op, &e);
}

static int check(const struct client_run *spec, struct err *e)
{
	unsigned char raw[SHA256_SIZE];

	if (strlen(spec->image) != 71 || !text_starts_with(spec->image, "sha256:") ||
		!text_unhex(spec->image + 7, raw, sizeof(raw)))
		return err_set(e, ERR_PROTOCOL, 0, "an image is named by its sha256 digest");
	if (spec->name && !agent_name_is_valid(spec->name))
		return err_set(e, ERR_INVALID, 0,
			"a container's name is 1 to 63 letters, digits, _ . -, and begins with a "
			"letter or digit");
	return 0;
}

/* The audit record says what is executed and bound to what. */
static void describe(struct op *op, const struct run *r)
{
	(void)json_object_set_new(op->bound, "image", json_string(r->spec.image));
	(void)json_object_set_new(op->detail, "argv", client_bytes_encode(r->spec.argv));
	if (r->spec.name)
		(void)json_object_set_new(op->detail, "name", json_string(r->spec.name));
	if (r->spec.detach)
		(void)json_object_set_new(op->detail, "detached", json_true());
	session_bind(op);
}

static void result(struct session *x, json_t *members)
{
	(void)json_object_set_new(members, "id", json_string(((struct run *)x)->message.id));
}

static int prepare(struct op *op, struct err *e)
{
	static const struct session_kind kind = {
		.opens = AGENT_RUN,
		.carries = SESSION_STDIN | SESSION_STDOUT | SESSION_STDERR,
		.signals = true,
		.tree = true,
		.leave = AGENT_KILL,
		.result = result,
	};
	struct run *r = calloc(1, sizeof(*r));
	int ret;

	if (!r)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	op->state = r;
	session_init(&r->session, op, &kind);
	if ((ret = client_run_decode(op->request, &r->spec, e)) < 0 ||
		(ret = check(&r->spec, e)) < 0)
		return ret;
	r->session.keeps_on = r->spec.detach;
	if (!r->spec.stdin_open)
		r->session.carries &= ~SESSION_STDIN;
	describe(op, r);
	return 0;
}

static void release(struct op *op)
{
	struct run *r = op->state;

	if (!r)
		return;
	session_release(&r->session);
	client_run_release(&r->spec);
	agent_run_release(&r->message);
	free(r);
}

const struct op_kind op_run = {
	.name = "run",
	.action = "run",
	.of_machine = true,
	.prepare = prepare,
	.start = begin,
	.frame = session_client_frame,
	.gone = session_client_gone,
	.release = release,
};
