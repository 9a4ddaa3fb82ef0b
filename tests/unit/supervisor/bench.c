/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include "../store/store-test.h"

#include "base/fd.h"
#include "base/sock.h"

#include <errno.h>

struct machine {
	struct channel *channel;
};

struct supervisor bench;
struct peer agent;
bool bench_broken, bench_defer_attach;

static struct machine machine;
static int mux[2], resume[2], lock_fd = -1;
static void (*attach_done)(void *ctx, const struct err *why);
static void *attach_ctx;

/* ---- what takes the place of machine.c ---- */

struct channel *machine_channel(struct machine *m)
{
	return m->channel;
}

void machine_kick(struct machine *m)
{
	(void)m;
}

size_t machine_images_len(const struct machine *m)
{
	(void)m;
	return 0;
}

const struct machine_image *machine_image_at(const struct machine *m, size_t i)
{
	(void)m;
	(void)i;
	return NULL;
}

int machine_attach(struct machine *m, const char *digest,
	void (*done)(void *ctx, const struct err *why), void *ctx, struct err *e)
{
	(void)m;
	(void)e;
	if (strcmp(digest, &BENCH_IMAGE[strlen("sha256:")]) != 0)
		test_bail("another image");
	attach_done = done;
	attach_ctx = ctx;
	if (!bench_defer_attach)
		bench_attached(NULL);
	return 0;
}

void bench_attached(const struct err *why)
{
	attach_done(attach_ctx, why);
}

/* Never reached by these tests; op.c's table leads to them. */
struct vm *machine_vm(struct machine *m)
{
	(void)m;
	abort();
}

struct link *machine_net(struct machine *m)
{
	(void)m;
	abort();
}

void machine_fs_answer(struct machine *m, const struct fs_answer *a)
{
	(void)m;
	(void)a;
}

struct link *machine_fs(struct machine *m)
{
	(void)m;
	abort();
}

uint32_t machine_epoch(const struct machine *m)
{
	(void)m;
	return 1;
}

uint32_t machine_quiesce(struct machine *m)
{
	(void)m;
	abort();
}

int machine_resume(struct machine *m, struct err *e)
{
	(void)m;
	(void)e;
	abort();
}

int machine_start(uv_loop_t *loop, const struct machine_source *source, int log_fd,
	const struct machine_events *events, void *ctx, struct machine **ret, struct err *e)
{
	(void)loop;
	(void)source;
	(void)log_fd;
	(void)events;
	(void)ctx;
	(void)ret;
	(void)e;
	abort();
}

void machine_free(struct machine *m)
{
	(void)m;
}

/* ---- the supervisor ---- */

static void on_resumed(void *ctx)
{
	(void)ctx;
}

static void on_quiesced(void *ctx, uint32_t number)
{
	(void)ctx;
	(void)number;
}

static void on_session_frame(void *ctx, const struct frame *f)
{
	op_session_frame(ctx, f);
}

static void on_broken(void *ctx, const struct err *why)
{
	(void)ctx;
	(void)why;
	bench_broken = true;
}

static void open_store(void)
{
	struct image_new image = {.digest = BENCH_IMAGE,
		.config = "{\"config\":{\"Cmd\":[\"sh\"],\"Env\":[\"A=1\"]}}",
		.platform = "linux/amd64",
		.ref = "docker.io/library/busybox:latest"};

	test_setup();
	test_home(&bench.home, &bench.catalog);
	if (catalog_sandbox_add(bench.catalog, BENCH_BOX, "{}", &bench.row, &lock_fd, &test_err) <
			0 ||
		catalog_image_put(bench.catalog, &image, &test_err) < 0 ||
		audit_open(&bench.home, bench.catalog, &bench.audit, &test_err) < 0)
		test_bail("the store");
}

static void open_machine(void)
{
	static const struct channel_events events = {
		on_resumed, on_quiesced, on_session_frame, on_broken};
	unsigned char record[AGENT_RESUME_SIZE];
	struct agent_resume r;

	if (sock_pair(mux) < 0 || sock_pair(resume) < 0 || fd_set_nonblock(mux[0], true) < 0 ||
		fd_set_nonblock(mux[1], true) < 0)
		test_bail("sockets");
	machine.channel = channel_new(mux[0], resume[0], 1, &events, &bench);
	bench.machine = &machine;
	if (channel_resume(machine.channel, true, &test_err) < 0 ||
		fd_read_full(resume[1], record, sizeof(record)) < 0 ||
		agent_resume_decode(record, &r) < 0 ||
		fd_write_all(mux[1], r.nonce, sizeof(r.nonce)) < 0)
		test_bail("the channel");
	(void)channel_process(machine.channel);
	if (fd_read_full(mux[1], record, AGENT_NONCE_SIZE) != AGENT_NONCE_SIZE)
		test_bail("the nonce");
	agent = (struct peer){.fd = mux[1]};
	buf_init(&agent.in, 4u << 20);
}

void bench_open(void)
{
	bench.state = SUPERVISOR_RUNNING;
	bench.ends_left = AGENT_CONTAINERS_MAX;
	open_store();
	open_machine();
	if (uv_loop_init(&bench.loop) < 0)
		test_bail("uv_loop_init");
}

void bench_close(void)
{
	struct err why;

	(void)err_set(&why, ERR_CANCELLED, 0, "the test ends");
	op_fail_all(&bench, NULL, &why);
	bench_step();
	channel_free(machine.channel);
	for (int i = 0; i < 2; i++) {
		(void)fd_close(mux[i]);
		(void)fd_close(resume[i]);
	}
	buf_release(&agent.in);
	while (bench.settling)
		(void)uv_run(&bench.loop, UV_RUN_ONCE);
	(void)uv_loop_close(&bench.loop);
	audit_close(bench.audit);
	catalog_close(bench.catalog);
	sandbox_row_release(&bench.row);
	home_release(&bench.home);
	(void)fd_close(lock_fd);
}

void bench_step(void)
{
	/* What one round queues, the next one delivers. */
	for (int i = 0; i < 6; i++) {
		(void)uv_run(&bench.loop, UV_RUN_NOWAIT);
		(void)channel_process(machine.channel);
	}
}

/* ---- peers ---- */

static void say(
	int fd, uint16_t type, uint32_t stream, uint32_t epoch, const void *data, size_t len)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, 1u << 20);
	frame_put(&b, type, stream, epoch, data, len);
	if (buf_failed(&b) || fd_write_all(fd, b.data, b.len) < 0)
		test_bail("a frame");
}

void client_open(struct peer *p, const char *op, json_t *members)
{
	cleanup_json *request = members ? members : json_object();
	cleanup_buf struct buf b = {0};
	struct audit_actor actor;
	struct conn *c;
	int pair[2];

	audit_actor_self(&actor);
	(void)json_object_set_new(request, "op", json_string(op));
	(void)json_object_set_new(request, "actor", audit_actor_encode(&actor));
	buf_init(&b, CLIENT_JSON_MAX);
	json_put_canonical(&b, request);
	if (sock_pair(pair) < 0 || fd_set_nonblock(pair[1], true) < 0 ||
		conn_new(&bench.loop, pair[0], &op_conn_events, &bench, &c, &test_err) < 0)
		test_bail("a client");
	*p = (struct peer){.fd = pair[1]};
	buf_init(&p->in, 8u << 20);
	say(p->fd, CLIENT_REQUEST, 0, 0, b.data, b.len);
	bench_step();
}

void client_close(struct peer *p)
{
	p->fd = fd_close(p->fd);
	buf_release(&p->in);
	bench_step();
}

void client_say(struct peer *p, uint16_t type, const void *data, size_t len)
{
	say(p->fd, type, 0, 0, data, len);
	bench_step();
}

void client_grant(struct peer *p, uint32_t which, uint32_t bytes)
{
	struct agent_window w = {which, bytes};
	cleanup_buf struct buf b = {0};

	buf_init(&b, 16);
	agent_window_encode(&b, &w);
	client_say(p, CLIENT_WINDOW, b.data, b.len);
}

static void fill(struct peer *p)
{
	unsigned char chunk[65536];
	ssize_t n;

	while (!p->closed && (n = read(p->fd, chunk, sizeof(chunk))) != -1) {
		p->closed = n == 0;
		buf_put(&p->in, chunk, (size_t)n);
		bench_step();
	}
}

const struct got *next_frame(struct peer *p)
{
	struct frame f;

	fill(p);
	p->got.type = 0;
	int n = frame_parse(p->in.data, p->in.len, &f);
	if (n <= 0)
		return &p->got;
	if (f.len > sizeof(p->got.data))
		test_bail("a frame that is too long for this test");
	p->got.type = f.type;
	p->got.stream = f.stream;
	p->got.len = f.len;
	if (f.len > 0)
		memcpy(p->got.data, f.payload, f.len);
	buf_consume(&p->in, (size_t)n);
	return &p->got;
}

json_t *client_result(struct peer *p)
{
	const struct got *g = next_frame(p);
	json_t *o = NULL;

	if (g->type != CLIENT_RESULT || json_parse_object(g->data, g->len, "", &o, &test_err) < 0)
		return NULL;
	return o;
}

const char *client_outcome(struct peer *p)
{
	static char kind[32];
	cleanup_json *o = client_result(p);
	const char *s = json_string_value(json_object_get(json_object_get(o, "error"), "kind"));

	if (!o)
		return "none";
	(void)snprintf(kind, sizeof(kind), "%s", s ? s : "ok");
	return kind;
}

uint32_t agent_hears(uint16_t type)
{
	const struct got *g = next_frame(&agent);

	return g->type == type ? g->stream : 0;
}

void agent_says(uint16_t type, uint32_t stream, const void *data, size_t len)
{
	say(agent.fd, type, stream, 1, data, len);
	bench_step();
}

void agent_exits(uint32_t stream, uint32_t how, uint32_t code)
{
	struct agent_exit x = {.how = how, .code = code};
	cleanup_buf struct buf b = {0};

	buf_init(&b, 64);
	agent_exit_encode(&b, &x);
	agent_says(AGENT_RUN_EXIT, stream, b.data, b.len);
}

void agent_refuses(uint16_t type, uint32_t stream, uint32_t status, uint32_t fail, const char *text)
{
	struct agent_reply r = {.status = status, .fail = fail};
	cleanup_buf struct buf b = {0};

	buf_init(&b, 512);
	(void)snprintf(r.text, sizeof(r.text), "%s", text);
	agent_reply_encode(&b, &r);
	agent_says(type, stream, b.data, b.len);
}

void agent_grants(uint32_t stream, uint32_t bytes)
{
	struct agent_window w = {AGENT_WHICH_STDIN, bytes};
	cleanup_buf struct buf b = {0};

	buf_init(&b, 16);
	agent_window_encode(&b, &w);
	agent_says(AGENT_WINDOW, stream, b.data, b.len);
}

void agent_tells(uint16_t type, uint32_t stream, const char *id, const char *name)
{
	struct agent_container c = {.state = AGENT_CONTAINER_ENDED,
		.flags = AGENT_KEEP,
		.exit = {.how = AGENT_END_SIGNALED, .code = 9, .oom = 1},
		.created_ns = 5,
		.ended_ns = 6};
	cleanup_buf struct buf b = {0};

	(void)snprintf(c.id, sizeof(c.id), "%s", id);
	(void)snprintf(c.name, sizeof(c.name), "%s", name);
	(void)snprintf(c.command, sizeof(c.command), "sh -c \"\033[31m\xff\"");
	buf_init(&b, 2048);
	agent_container_encode(&b, &c);
	agent_says(type, stream, b.data, b.len);
}

/* ---- the audit log ---- */

struct search {
	const char *action;
	json_t *last;
	size_t count;
};

static int on_record(const json_t *record, void *ctx)
{
	struct search *s = ctx;
	const char *action = json_string_value(json_object_get(record, "action"));

	if (!action || strcmp(action, s->action) != 0)
		return 0;
	json_decref(s->last);
	s->last = json_deep_copy(record);
	s->count++;
	return 0;
}

json_t *last_record(const char *action)
{
	struct search s = {.action = action};

	(void)!audit_read(&bench.home, 1, on_record, &s, &test_err);
	return s.last;
}

size_t count_records(const char *action)
{
	struct search s = {.action = action};

	(void)!audit_read(&bench.home, 1, on_record, &s, &test_err);
	json_decref(s.last);
	return s.count;
}

size_t ops_count(void)
{
	size_t n = 0;

	for (const struct op *op = bench.ops; op; op = op->next)
		n++;
	return n;
}
