/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run: one program in the sandbox, for one client.
 *
 *   ATTACHING  the image's LUN is given to the VM and mounted in the guest
 *   STARTED    RUN is sent; data and windows pass between client and agent
 *   ENDING     the client is gone: KILL is sent, output is dropped until RUN_EXIT
 *
 * The supervisor holds no data back: what the client granted goes to the agent, what the agent
 * granted to the client. It counts both, since neither may exceed what it was granted.
 */
#include "op.h"

#include "image-config.h"

#include "../base/clock.h"
#include "../base/cursor.h"
#include "../base/hash.h"
#include "../base/text.h"
#include "../proto/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What a run whose client is gone may go on writing before it has to wait for its end. */
#define DROP_WINDOW (256u * 1024)
#define ID_LEN 12

enum run_state { RUN_WAITING, RUN_ATTACHING, RUN_STARTED, RUN_ENDING };

struct run {
	enum run_state state;
	struct op *op;
	struct client_run spec; /* its strings are the request's */
	struct agent_run message;
	uint32_t stream;
	/* Granted and not yet used: stdout and stderr by the client, stdin by the agent. */
	uint64_t window[AGENT_WHICH_STDERR + 1];
	bool client_gone;
	int64_t begun_us;
	struct run *next;
};

static void unlink_run(struct run *r)
{
	for (struct run **at = &r->op->s->runs; *at; at = &(*at)->next)
		if (*at == r) {
			*at = r->next;
			return;
		}
}

static void send_window(struct run *r, uint32_t which, uint64_t bytes)
{
	struct agent_window w = {.which = which, .bytes = (uint32_t)bytes};
	struct supervisor *s = r->op->s;
	cleanup_buf struct buf b = {0};

	if (bytes == 0)
		return;
	buf_init(&b, 16);
	agent_window_encode(&b, &w);
	channel_send(machine_channel(s->machine), AGENT_WINDOW, r->stream, b.data, b.len);
}

static void drop_output(struct run *r)
{
	for (uint32_t which = AGENT_WHICH_STDOUT; which <= AGENT_WHICH_STDERR; which++) {
		if (r->window[which] >= DROP_WINDOW)
			continue;
		send_window(r, which, DROP_WINDOW - r->window[which]);
		r->window[which] = DROP_WINDOW;
	}
}

/* Ends the whole process tree; RUN_EXIT will end the operation. */
static void kill_run(struct run *r)
{
	struct supervisor *s = r->op->s;

	if (r->state != RUN_STARTED)
		return;
	r->state = RUN_ENDING;
	channel_send(machine_channel(s->machine), AGENT_KILL, r->stream, NULL, 0);
	drop_output(r);
	machine_kick(s->machine);
}

static int send_run(struct run *r, struct err *e)
{
	struct supervisor *s = r->op->s;
	struct channel *ch = machine_channel(s->machine);
	cleanup_buf struct buf b = {0};

	buf_init(&b, FRAME_PAYLOAD_MAX);
	r->message.wall_ns = (uint64_t)clock_wall_ns();
	agent_run_encode(&b, &r->message);
	if (buf_failed(&b))
		return err_set(e, ERR_LIMIT, 0, "command and environment are too long");
	r->stream = channel_number(ch);
	r->state = RUN_STARTED;
	channel_send(ch, AGENT_RUN, r->stream, b.data, b.len);
	send_window(r, AGENT_WHICH_STDOUT, r->window[AGENT_WHICH_STDOUT]);
	send_window(r, AGENT_WHICH_STDERR, r->window[AGENT_WHICH_STDERR]);
	machine_kick(s->machine);
	return 0;
}

static void on_attached(void *ctx, const struct err *why)
{
	struct op *op = ctx;
	struct run *r = op->state;
	struct err e;

	if (!why && r->client_gone) {
		(void)err_set(&e, ERR_CANCELLED, 0, "the client went away");
		why = &e;
	} else if (!why && send_run(r, &e) < 0) {
		why = &e;
	}
	if (why)
		op_fail(op, why);
}

static int compose(struct run *r, struct err *e)
{
	struct supervisor *s = r->op->s;
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
	r->message.flags = r->spec.stdin_open ? AGENT_STDIN_OPEN : 0;
	r->message.timeout_ms = r->spec.timeout_ms;
	r->message.memory_bytes = r->spec.memory_bytes;
	r->message.pids = (uint32_t)r->spec.pids;
	if (!r->message.id || !r->message.image || !r->message.hostname)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	return 0;
}

static void begin(struct op *op)
{
	struct supervisor *s = op->s;
	struct run *r = op->state;
	struct err e;

	r->state = RUN_ATTACHING;
	if (compose(r, &e) < 0 ||
		catalog_sandbox_image_add(s->catalog, s->row.id, r->spec.image, &e) < 0 ||
		machine_attach(s->machine, r->message.image, on_attached, op, &e) < 0)
		op_fail(op, &e);
}

static int check_image(const char *image, struct err *e)
{
	unsigned char raw[SHA256_SIZE];

	if (strlen(image) != 71 || !text_starts_with(image, "sha256:") ||
		!text_unhex(image + 7, raw, sizeof(raw)))
		return err_set(e, ERR_PROTOCOL, 0, "an image is named by its sha256 digest");
	return 0;
}

/* The audit record says what is executed and bound to what. */
static void describe(struct op *op, const struct run *r)
{
	struct sandbox_row row = {0};
	struct checkpoint_row checkpoint = {0};
	struct err e;

	(void)json_object_set_new(op->bound, "image", json_string(r->spec.image));
	(void)json_object_set_new(op->detail, "argv", client_bytes_encode(r->spec.argv));
	if (catalog_sandbox_get(op->s->catalog, op->s->row.id, &row, &e) == 0 && *row.checkpoint &&
		catalog_checkpoint_find(
			op->s->catalog, op->s->row.id, row.checkpoint, &checkpoint, &e) == 0)
		(void)json_object_set_new(op->bound, "checkpoint", json_string(checkpoint.hash));
	checkpoint_row_release(&checkpoint);
	sandbox_row_release(&row);
}

static int prepare(struct op *op, struct err *e)
{
	struct run *r = calloc(1, sizeof(*r));
	int ret;

	if (!r)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	r->op = op;
	r->begun_us = clock_mono_us();
	op->state = r;
	r->next = op->s->runs;
	op->s->runs = r;
	if ((ret = client_run_decode(op->request, &r->spec, e)) < 0 ||
		(ret = check_image(r->spec.image, e)) < 0)
		return ret;
	describe(op, r);
	return 0;
}

static void release(struct op *op)
{
	struct run *r = op->state;

	if (!r)
		return;
	unlink_run(r);
	client_run_release(&r->spec);
	agent_run_release(&r->message);
	free(r);
}

/* The client broke the protocol. */
static void refuse(struct run *r, const char *what)
{
	struct conn *c = r->op->conn;
	struct err e;

	(void)err_set(&e, ERR_PROTOCOL, 0, "the client sent %s", what);
	if (r->state == RUN_STARTED) {
		/* The tree is killed first; the operation ends with it. */
		conn_set_user(c, NULL);
		r->op->conn = NULL;
		r->client_gone = true;
		conn_finish_error(c, &e);
		kill_run(r);
	} else if (r->state != RUN_ENDING) {
		op_fail(r->op, &e);
	}
}

static void client_window(struct run *r, const struct frame *f)
{
	struct agent_window w;
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	if (agent_window_decode(&c, &w) < 0 || w.which == AGENT_WHICH_STDIN ||
		r->window[w.which] + w.bytes > AGENT_WINDOW_MAX) {
		refuse(r, "a window that it may not grant");
		return;
	}
	r->window[w.which] += w.bytes;
	if (r->state == RUN_STARTED)
		send_window(r, w.which, w.bytes);
}

static void client_stdin(struct run *r, const struct frame *f)
{
	struct channel *ch = machine_channel(r->op->s->machine);

	if (f->len > r->window[AGENT_WHICH_STDIN]) {
		refuse(r, "more input than it was granted");
		return;
	}
	r->window[AGENT_WHICH_STDIN] -= f->len;
	channel_send(ch, AGENT_STDIN, r->stream, f->payload, f->len);
}

static void client_frame(struct op *op, const struct frame *f)
{
	struct run *r = op->state;

	if (f->type == CLIENT_WINDOW) {
		client_window(r, f);
	} else if (r->state != RUN_STARTED) {
		/* Nothing was granted yet. A signal to a run that has not begun ends it. */
		if (f->type == CLIENT_SIGNAL && r->state == RUN_ATTACHING)
			r->client_gone = true;
		return;
	} else if (f->type == CLIENT_STDIN) {
		client_stdin(r, f);
	} else if (f->type == CLIENT_STDIN_EOF) {
		channel_send(machine_channel(op->s->machine), AGENT_STDIN_EOF, r->stream, NULL, 0);
	} else if (f->type == CLIENT_SIGNAL && f->len == 4) {
		channel_send(machine_channel(op->s->machine), AGENT_SIGNAL, r->stream, f->payload,
			f->len);
	} else {
		refuse(r, "a frame that does not belong to a run");
		return;
	}
	if (op->s->machine)
		machine_kick(op->s->machine);
}

static void client_gone(struct op *op)
{
	struct run *r = op->state;
	struct err e;

	r->client_gone = true;
	if (r->state == RUN_WAITING) {
		(void)err_set(&e, ERR_CANCELLED, 0, "the client went away");
		op_fail(op, &e);
	} else {
		kill_run(r);
	}
}

static void agent_data(struct run *r, const struct frame *f)
{
	uint32_t which = f->type == AGENT_STDOUT ? AGENT_WHICH_STDOUT : AGENT_WHICH_STDERR;
	struct err e;

	if (f->len > r->window[which]) {
		(void)err_set(
			&e, ERR_PROTOCOL, 0, "the guest sent more output than it was granted");
		op_fail(r->op, &e);
		return;
	}
	r->window[which] -= f->len;
	if (r->state == RUN_ENDING)
		drop_output(r);
	else if (r->op->conn)
		conn_send(r->op->conn, f->type == AGENT_STDOUT ? CLIENT_STDOUT : CLIENT_STDERR,
			f->payload, f->len);
}

static void agent_window(struct run *r, const struct frame *f)
{
	struct agent_window w;
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	/* A guest that grants without end only gets what one window holds. */
	if (agent_window_decode(&c, &w) < 0 || w.which != AGENT_WHICH_STDIN ||
		!r->spec.stdin_open || r->window[w.which] + w.bytes > AGENT_WINDOW_MAX)
		return;
	r->window[w.which] += w.bytes;
	if (r->op->conn)
		conn_send(r->op->conn, CLIENT_WINDOW, f->payload, f->len);
}

static void agent_failed(struct run *r, const struct frame *f)
{
	static const enum err_kind kinds[] = {
		[AGENT_FAIL_NONE] = ERR_PROTOCOL,
		[AGENT_FAIL_NOT_FOUND] = ERR_CMD_NOT_FOUND,
		[AGENT_FAIL_NOT_EXEC] = ERR_CMD_NOT_EXEC,
		[AGENT_FAIL_SETUP] = ERR_INVALID,
	};
	struct agent_reply reply;
	struct cursor c;
	struct err e;

	cursor_init(&c, f->payload, f->len);
	if (agent_reply_decode(&c, &reply) < 0)
		(void)err_set(&e, ERR_PROTOCOL, 0, "the guest's answer cannot be read");
	else
		(void)err_set(&e, kinds[reply.fail], (int)(reply.status & 0xfff), "%s", reply.text);
	op_fail(r->op, &e);
}

static void agent_exit(struct run *r, const struct frame *f)
{
	static const char *const how[] = {"exited", "signaled", "timeout", "killed"};
	struct op *op = r->op;
	struct agent_exit x;
	struct cursor c;
	struct err e;

	cursor_init(&c, f->payload, f->len);
	if (agent_exit_decode(&c, &x) < 0) {
		(void)err_set(&e, ERR_PROTOCOL, 0, "the guest's exit report cannot be read");
		op_fail(op, &e);
		return;
	}
	if (r->client_gone) {
		(void)err_set(&e, ERR_CANCELLED, 0, "ended with its client");
		op_fail(op, &e);
		return;
	}
	(void)json_object_set_new(op->detail, "how", json_string(how[x.how]));
	(void)json_object_set_new(op->detail, "code", json_integer(x.code));
	(void)json_object_set_new(
		op->detail, "took_ms", json_integer((clock_mono_us() - r->begun_us) / 1000));
	op_succeed(op, json_pack("{s:s, s:i, s:b}", "how", how[x.how], "code", (int)x.code, "oom",
			       (int)x.oom));
}

void op_run_frame(struct supervisor *s, const struct frame *f)
{
	struct run *r = s->runs;

	while (r && (r->state < RUN_STARTED || r->stream != f->stream))
		r = r->next;
	if (!r)
		return;
	if (f->type == AGENT_RUN_STARTED && r->op->conn)
		conn_send(r->op->conn, CLIENT_STARTED, NULL, 0);
	else if (f->type == AGENT_STDOUT || f->type == AGENT_STDERR)
		agent_data(r, f);
	else if (f->type == AGENT_WINDOW)
		agent_window(r, f);
	else if (f->type == AGENT_RUN_FAILED)
		agent_failed(r, f);
	else if (f->type == AGENT_RUN_EXIT)
		agent_exit(r, f);
}

void op_run_end_all(struct supervisor *s, const struct err *why)
{
	struct run *r = s->runs;

	while (r) {
		if (r->state == RUN_WAITING) {
			r = r->next;
			continue;
		}
		op_fail(r->op, why);
		r = s->runs;
	}
}

const struct op_kind op_run = {
	.name = "run",
	.action = "run",
	.prepare = prepare,
	.start = begin,
	.frame = client_frame,
	.gone = client_gone,
	.release = release,
};
