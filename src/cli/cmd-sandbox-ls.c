/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox ls and sandbox inspect. */
#include "commands.h"

#include "connect.h"
#include "containers.h"
#include "output.h"
#include "spec-change.h"

#include "../base/clock.h"
#include "../base/text.h"
#include "../store/spec.h"

#include <errno.h>
#include <string.h>

#define STATUS_MS 5000

static enum shade shade_of(enum live_state s)
{
	switch (s) {
	case LIVE_RUNNING:
		return SHADE_GOOD;
	case LIVE_CRASHED:
		return SHADE_BAD;
	case LIVE_CREATING:
	case LIVE_BUSY:
	case LIVE_REMOVING:
		return SHADE_WARN;
	case LIVE_STOPPED:
	case LIVE_STATE_COUNT:
		break;
	}
	return SHADE_NONE;
}

static json_t *sandbox_json(const struct sandbox *s, const struct checkpoint_rows *checkpoints)
{
	char created[CLOCK_RFC3339_SIZE];

	clock_rfc3339(s->row.created_ns, created);
	return json_pack("{s:s, s:s, s:s, s:o, s:i, s:s?, s:i, s:s, s:s?}", "name", s->row.name,
		"id", s->row.id, "state", live_state_name(s->state), "spec",
		json_loads(s->row.spec, 0, NULL), "checkpoints", (int)checkpoints->len,
		"checkpoint", *s->row.checkpoint ? s->row.checkpoint : NULL, "epoch",
		(int)s->row.epoch, "created", created, "crash", s->row.crash);
}

static int add_row(
	struct table *t, const struct sandbox *s, const struct checkpoint_rows *cps, struct err *e)
{
	cleanup_spec struct spec spec;
	char cpus[16], memory[24], count[16], created[OUTPUT_TIME_SIZE];

	spec_init(&spec);
	int r = spec_decode(s->row.spec, &spec, e);
	if (r < 0)
		return err_wrap(e, "%s", s->row.name);
	(void)snprintf(cpus, sizeof(cpus), "%u", spec.cpus);
	(void)snprintf(memory, sizeof(memory), "%u MB", spec.memory_mb);
	(void)snprintf(count, sizeof(count), "%zu", cps->len);
	output_time(s->row.created_ns, created);
	const char *const cells[] = {s->row.name, live_state_name(s->state), cpus, memory,
		egress_mode_name(spec.egress), count, created};
	table_row(t, shade_of(s->state), cells);
	return 0;
}

/* One row into the table, or into the list when there is one. Takes row over. */
static int list_one(const struct context *c, struct sandbox_row *row, struct table *t, json_t *list,
	struct err *e)
{
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	struct checkpoint_rows cps = {0};
	int r;

	if ((r = sandbox_from_row(c, row, &s, e)) < 0 ||
		(r = catalog_checkpoint_list(c->catalog, s.row.id, &cps, e)) < 0)
		return r;
	if (!list)
		r = add_row(t, &s, &cps, e);
	else if (json_array_append_new(list, sandbox_json(&s, &cps)) < 0)
		r = err_set(e, ERR_IO, ENOMEM, "out of memory");
	checkpoint_rows_release(&cps);
	return r;
}

int cmd_sandbox_ls(const struct args *a, struct err *e)
{
	static const char *const headers[] = {
		"NAME", "STATE", "CPUS", "MEMORY", "EGRESS", "CHECKPOINTS", "CREATED", NULL};
	cleanup_context struct context c = {0};
	cleanup_table struct table t;
	cleanup_json *list = args_on(a, "json") ? json_array() : NULL;
	struct sandbox_rows rows = {0};
	int r;

	table_init(&t, headers, 1);
	if ((r = context_open(&c, e)) < 0)
		return r;
	context_sweep(&c);
	if ((r = catalog_sandbox_list(c.catalog, &rows, e)) < 0)
		return r;
	for (size_t i = 0; r >= 0 && i < rows.len; i++)
		r = list_one(&c, &rows.rows[i], &t, list, e);
	sandbox_rows_release(&rows);
	if (r < 0)
		return r;
	return list ? output_json(json_incref(list), e) : table_print(&t, e);
}

/* How many run and how many have ended; nothing when the guest does not say. */
static void add_containers(const struct context *c, const struct sandbox *s, json_t *live)
{
	cleanup_json *result = NULL;
	struct container one;
	json_int_t running = 0, ended = 0;
	struct err e;

	if (supervisor_ask(s, context_request(c, "ps"), clock_mono_ms() + STATUS_MS, &result, &e) <
		0)
		return;
	for (size_t i = 0; i < containers_count(result); i++) {
		if (container_decode(result, i, &one, &e) < 0)
			return;
		running += one.state != AGENT_CONTAINER_ENDED;
		ended += one.state == AGENT_CONTAINER_ENDED;
	}
	(void)json_object_set_new(live, "containers_running", json_integer(running));
	(void)json_object_set_new(live, "containers_ended", json_integer(ended));
}

/* What the supervisor says of it; NULL when it runs none or does not say. */
static json_t *ask_live(const struct context *c, const struct sandbox *s)
{
	json_t *live = sandbox_live(c, s);

	if (json_is_object(live))
		add_containers(c, s, live);
	return live;
}

static json_t *inspect_json(
	const struct context *c, const struct sandbox *s, json_t **ret_live, struct err *e)
{
	struct checkpoint_rows cps = {0};
	struct image_rows images = {0};
	json_t *list = NULL, *o = NULL;

	if (catalog_checkpoint_list(c->catalog, s->row.id, &cps, e) >= 0 &&
		catalog_sandbox_images(c->catalog, s->row.id, &images, e) >= 0) {
		list = json_array();
		for (size_t i = 0; i < images.len; i++)
			(void)json_array_append_new(list, json_string(images.rows[i].digest));
		o = sandbox_json(s, &cps);
		(void)json_object_set_new(o, "images", list);
		(void)json_object_set(o, "live", *ret_live ? *ret_live : json_null());
		if (!o)
			(void)err_set(e, ERR_IO, ENOMEM, "out of memory");
	}
	checkpoint_rows_release(&cps);
	image_rows_release(&images);
	return o;
}

static void print_member(const char *key, const json_t *value);

/* Mounts and ports: one a line. */
static void print_objects(const char *key, const json_t *list)
{
	const json_t *item;
	size_t i;

	json_array_foreach (list, i, item)
		print_member(i == 0 ? key : "", item);
}

static void print_member(const char *key, const json_t *value)
{
	cleanup_buf struct buf b = {0};
	const char *text;

	if (json_is_object(json_array_get(value, 0))) {
		print_objects(key, value);
		return;
	}
	buf_init(&b, 64 * 1024);
	if (!json_is_string(value))
		json_put_canonical(&b, value);
	text = json_is_string(value) ? json_string_value(value) : buf_cstr(&b);
	output_line("%-24s %s", key, text && strcmp(text, "null") != 0 ? text : "-");
}

int cmd_sandbox_inspect(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	cleanup_json *live = NULL, *o = NULL;
	const char *key, *inner;
	json_t *value, *member;
	int r;

	if ((r = context_open(&c, e)) < 0 || (r = sandbox_open(&c, a->operands[0], &s, e)) < 0)
		return r;
	live = ask_live(&c, &s);
	o = inspect_json(&c, &s, &live, e);
	if (!o)
		return err_code(e);
	if (args_on(a, "json"))
		return output_json(json_incref(o), e);
	json_object_foreach (o, key, value) {
		if (!json_is_object(value)) {
			print_member(key, value);
			continue;
		}
		output_line("%s", key);
		json_object_foreach (value, inner, member) {
			char shown[40];
			(void)snprintf(shown, sizeof(shown), "  %.30s", inner);
			print_member(shown, member);
		}
	}
	return 0;
}
