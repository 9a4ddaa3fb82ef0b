/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint, checkpoint ls and checkpoint rm. */
#include "commands.h"

#include "connect.h"
#include "output.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/file.h"
#include "../base/text.h"

#include <errno.h>
#include <string.h>

static void show_figures(const json_t *result)
{
	double pause_ms = json_number_value(json_object_get(result, "pause_ms"));
	json_int_t bytes = json_integer_value(json_object_get(result, "size_bytes"));
	char size[TEXT_SIZE_MAX];

	if (!output_progress() || bytes < 0)
		return;
	text_size((uint64_t)bytes, size);
	output_notice("%s, the sandbox stood still for %.0f ms", size, pause_ms);
}

static int check_label(
	const struct context *c, const struct sandbox *s, const char *label, struct err *e)
{
	if (!label)
		return 0;
	if (!text_is_label(label))
		return err_set(
			e, ERR_INVALID, 0, "--label: a label is 1 to 128 bytes of printable text");
	return catalog_label_check(c->catalog, s->row.id, label, e);
}

int cmd_checkpoint_create(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	cleanup_json *result = NULL;
	const char *label = args_value(a, "label"), *id;
	int r;

	if ((r = context_open(&c, e)) < 0 || (r = sandbox_open(&c, a->operands[0], &s, e)) < 0 ||
		(r = check_label(&c, &s, label, e)) < 0)
		return r;
	json_t *request = context_request(&c, "checkpoint");
	if (label && json_object_set_new(request, "label", json_string(label)) < 0) {
		json_decref(request);
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	}
	if ((r = supervisor_ask(&s, request, -1, &result, e)) < 0 ||
		(r = json_get_str(result, "id", CATALOG_ID_SIZE - 1, &id, e)) < 0)
		return r;
	if (args_on(a, "json")) {
		(void)json_object_del(result, "ok");
		return output_json(json_incref(result), e);
	}
	show_figures(result);
	output_line("%s", id);
	return 0;
}

static json_t *checkpoint_json(const struct checkpoint_row *p, bool current)
{
	char created[CLOCK_RFC3339_SIZE];

	clock_rfc3339(p->created_ns, created);
	return json_pack("{s:s, s:s?, s:s, s:I, s:f, s:s?, s:b, s:b, s:s}", "id", p->id, "label",
		p->label, "created", created, "size_bytes", (json_int_t)p->size_bytes, "pause_ms",
		(double)p->pause_us / 1000, "parent", *p->parent ? p->parent : NULL, "current",
		current, "durable", p->durable, "hash", p->hash);
}

static void add_row(struct table *t, const struct checkpoint_row *p, bool current)
{
	char id[CATALOG_ID_SIZE + 2], created[OUTPUT_TIME_SIZE], size[TEXT_SIZE_MAX], pause[32];

	(void)snprintf(id, sizeof(id), "%s%s", p->id, current ? " *" : "");
	output_time(p->created_ns, created);
	text_size(p->size_bytes, size);
	(void)snprintf(pause, sizeof(pause), "%.1f ms", (double)p->pause_us / 1000);
	const char *const cells[] = {id, p->label, created, size, pause, p->parent};
	table_row(t, current ? SHADE_GOOD : SHADE_NONE, cells);
}

static int print_rows(
	const struct checkpoint_rows *rows, const char *current, bool json, struct err *e)
{
	static const char *const headers[] = {
		"ID", "LABEL", "CREATED", "SIZE", "PAUSE", "PARENT", NULL};
	cleanup_table struct table t;
	cleanup_json *list = json_array();

	table_init(&t, headers, 0);
	for (size_t i = 0; i < rows->len; i++) {
		const struct checkpoint_row *p = &rows->rows[i];
		bool is_current = strcmp(p->id, current) == 0;
		add_row(&t, p, is_current);
		(void)json_array_append_new(list, checkpoint_json(p, is_current));
	}
	return json ? output_json(json_incref(list), e) : table_print(&t, e);
}

int cmd_checkpoint_ls(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	struct sandbox_row row = {0};
	struct checkpoint_rows rows = {0};
	int r;

	if ((r = context_open(&c, e)) < 0 ||
		(r = catalog_sandbox_find(c.catalog, a->operands[0], &row, e)) < 0)
		return r;
	r = catalog_checkpoint_list(c.catalog, row.id, &rows, e);
	if (r >= 0)
		r = print_rows(&rows, row.checkpoint, args_on(a, "json"), e);
	checkpoint_rows_release(&rows);
	sandbox_row_release(&row);
	return r;
}

static int rm_live(const struct context *c, const struct sandbox *s, const char *id, struct err *e)
{
	cleanup_json *result = NULL;
	json_t *request = context_request(c, "checkpoint-rm");

	if (!request || json_object_set_new(request, "checkpoint", json_string(id)) < 0) {
		json_decref(request);
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	}
	return supervisor_ask(s, request, -1, &result, e);
}

static int rm_files(const struct sandbox *s, const char *id, struct err *e)
{
	cleanup_fd int dir = dir_open(s->dirfd, "checkpoints", false, 0700);
	int r = dir < 0 ? dir : file_remove_tree(dir, id);

	return r < 0 ? err_errno(e, -r, "cannot remove checkpoints/%s", id) : 0;
}

/* No supervisor is needed for this: the disk layers that become free are merged by the next one. */
static int rm_stopped(
	struct context *c, const struct sandbox *s, const struct checkpoint_row *p, struct err *e)
{
	cleanup_fd int lock = -1;
	cleanup_json *bound = NULL;
	int r;

	if (s->dirfd < 0)
		return err_set(e, ERR_CORRUPT, 0, "the folder of %s is missing", s->row.name);
	if ((r = home_sandbox_lock(s->dirfd, &lock, e)) < 0)
		return err_wrap(e, "%s", s->row.name);
	if ((r = sandbox_bind(s, p, &bound, e)) < 0)
		return r;
	cleanup_json *detail = json_pack("{s:s, s:s*}", "checkpoint", p->id, "label", p->label);
	struct action a = {.frees_space = true,
		.event = {.action = "checkpoint.rm",
			.sandbox = s->row.name,
			.sandbox_id = s->row.id,
			.bound = bound,
			.detail = detail}};
	if ((r = action_begin(c, &a, e)) < 0)
		return r;
	r = catalog_checkpoint_delete(c->catalog, s->row.id, p->id, e);
	if (r >= 0)
		r = rm_files(s, p->id, e);
	return action_end(c, &a, r, e);
}

int cmd_checkpoint_rm(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	struct checkpoint_row p = {0};
	int r;

	if ((r = context_open(&c, e)) < 0 || (r = sandbox_open(&c, a->operands[0], &s, e)) < 0 ||
		(r = catalog_checkpoint_find(c.catalog, s.row.id, a->operands[1], &p, e)) < 0)
		return r;
	if (s.state == LIVE_STOPPED || s.state == LIVE_CRASHED)
		r = rm_stopped(&c, &s, &p, e);
	else
		r = rm_live(&c, &s, p.id, e);
	if (r >= 0)
		output_line("%s", p.id);
	checkpoint_row_release(&p);
	return r;
}
