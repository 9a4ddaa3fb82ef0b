/* SPDX-License-Identifier: Apache-2.0 */
/* copy: a tree of files (proto/tree.h) to or from the guest. The supervisor passes it through. */
#include "session.h"

#include "agent-view.h"

#include "../base/strv.h"
#include "../base/text.h"
#include "../proto/agent-files.h"
#include "../proto/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES_MAX 4095

struct copy {
	struct session session;
	struct buf message;
	bool attached; /* the image of the container that has ended: once is enough */
};

static void begin(struct op *op)
{
	struct copy *c = op->state;
	struct err e;

	session_begin(&c->session);
	if (session_open(&c->session, &c->message, &e) < 0)
		op_fail(op, &e);
}

static void on_attached(void *ctx, const struct err *why)
{
	struct op *op = op_ref_end(ctx);
	struct err e;

	if (!op)
		return;
	struct copy *c = op->state;
	if (why)
		op_fail(op, why);
	else if (session_open(&c->session, &c->message, &e) < 0)
		op_fail(op, &e);
}

/* The guest names an image: it gets none that the sandbox has not used. */
static bool is_of_sandbox(const struct supervisor *s, const char *digest)
{
	struct image_rows rows = {0};
	struct err e;
	bool found = false;

	if (catalog_sandbox_images(s->catalog, s->row.id, &rows, &e) < 0)
		return false;
	for (size_t i = 0; i < rows.len; i++)
		found |= strcmp(rows.rows[i].digest + strlen("sha256:"), digest) == 0;
	image_rows_release(&rows);
	return found;
}

/* Of a container that ended before the sandbox was started the image is not attached yet. */
static bool attach_image(struct session *x, const struct agent_reply *reply)
{
	struct copy *c = (struct copy *)x;
	struct op *op = x->op;
	struct err e;

	if (reply->status != AGENT_COPY_NO_IMAGE)
		return false;
	session_reopen(x);
	struct op_ref *ref = NULL;
	int r;
	if (c->attached || !is_of_sandbox(op->s, reply->text))
		r = err_set(&e, ERR_WRONG_STATE, 0,
			"the image of this container, which has ended, is not there any more");
	else if (!(ref = op_ref_new(op)))
		r = err_set(&e, ERR_IO, ENOMEM, "out of memory");
	else
		r = machine_attach(op->s->machine, reply->text, on_attached, ref, &e);
	c->attached = true;
	if (r < 0 && ref)
		(void)op_ref_end(ref);
	if (r < 0)
		op_fail(op, &e);
	return true;
}

/* A vector of one: bytes that need not be UTF-8. Missing: "". */
static int get_bytes(const json_t *o, const char *key, char **ret, struct err *e)
{
	cleanup_strv char **v = NULL;
	int r = client_bytes_decode(o, key, &v, e);

	if (r < 0)
		return r;
	const char *s = v[0] ? v[0] : "";
	if (strlen(s) > PATH_BYTES_MAX)
		return err_set(
			e, ERR_LIMIT, 0, "\"%s\" is longer than %d bytes", key, PATH_BYTES_MAX);
	*ret = strdup(s);
	return *ret ? 0 : err_set(e, ERR_IO, ENOMEM, "out of memory");
}

static int read_kind(const json_t *o, uint32_t *ret, struct err *e)
{
	static const char *const names[] = {"out", "in", "upper"};
	const char *name;
	int r = json_get_str(o, "kind", 16, &name, e);

	_Static_assert(sizeof(names) / sizeof(names[0]) == AGENT_COPY_KIND_COUNT, "");
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < AGENT_COPY_KIND_COUNT; i++)
		if (strcmp(names[i], name) == 0) {
			*ret = i;
			return 0;
		}
	return err_set(e, ERR_PROTOCOL, 0, "no kind of copy \"%s\"", name);
}

static int read_request(struct op *op, struct agent_copy *m, struct err *e)
{
	const json_t *o = op->request;
	const char *container;
	uint64_t mount;
	bool contents;
	int r;

	if ((r = read_kind(o, &m->kind, e)) < 0 ||
		(r = json_get_str_or(o, "container", AGENT_REF_SIZE - 1, "", &container, e)) < 0 ||
		(r = json_get_bool_or(o, "contents", false, &contents, e)) < 0 ||
		(r = json_get_u64_or(o, "mount", UINT32_MAX, 0, &mount, e)) < 0 ||
		(r = get_bytes(o, "path", &m->path, e)) < 0 ||
		(r = get_bytes(o, "name", &m->name, e)) < 0)
		return r;
	if (*container && (r = agent_ref_check(container, op->s->row.name, e)) < 0)
		return r;
	(void)snprintf(m->container, sizeof(m->container), "%s", container);
	m->contents = contents;
	m->mount = (uint32_t)mount;
	return 0;
}

static void describe(struct op *op, const struct agent_copy *m)
{
	static const char *const directions[] = {"out", "in", "diff"};
	char path[512];

	text_escape(m->path, path, sizeof(path));
	(void)json_object_set_new(op->detail, "direction", json_string(directions[m->kind]));
	if (m->kind == AGENT_COPY_UPPER)
		(void)json_object_set_new(op->detail, "mount", json_integer(m->mount));
	else
		(void)json_object_set_new(op->detail, "path", json_string(path));
	if (*m->container)
		(void)json_object_set_new(op->detail, "container", json_string(m->container));
	session_bind(op);
}

static int prepare(struct op *op, struct err *e)
{
	/* STDERR: what could not be copied, for people. */
	static const struct session_kind out = {.opens = AGENT_COPY,
		.failed = attach_image,
		.carries = SESSION_STDOUT | SESSION_STDERR,
		.leave = AGENT_KILL,
		.names_container = true};
	static const struct session_kind in = {.opens = AGENT_COPY,
		.failed = attach_image,
		.carries = SESSION_STDIN | SESSION_STDERR,
		.leave = AGENT_KILL,
		.names_container = true};
	struct copy *c = calloc(1, sizeof(*c));
	struct agent_copy m = {0};

	if (!c)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	op->state = c;
	buf_init(&c->message, 4 * PATH_BYTES_MAX);
	session_init(&c->session, op, &out);
	int r = read_request(op, &m, e);
	if (r == 0) {
		session_init(&c->session, op, m.kind == AGENT_COPY_IN ? &in : &out);
		agent_copy_encode(&c->message, &m);
		describe(op, &m);
	}
	agent_copy_release(&m);
	return r;
}

static void release(struct op *op)
{
	struct copy *c = op->state;

	if (!c)
		return;
	session_release(&c->session);
	buf_release(&c->message);
	free(c);
}

const struct op_kind op_copy = {
	.name = "copy",
	.action = "container.cp",
	.of_machine = true,
	.prepare = prepare,
	.start = begin,
	.frame = session_client_frame,
	.gone = session_client_gone,
	.release = release,
};
