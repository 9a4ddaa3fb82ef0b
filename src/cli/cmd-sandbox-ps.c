/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include "containers.h"
#include "output.h"
#include "session.h"

#include "../base/clock.h"
#include "../base/text.h"

#include <errno.h>

#define CELL_MAX 256

static enum shade shade_of(const struct container *c)
{
	if (c->state == AGENT_CONTAINER_RUNNING)
		return SHADE_GOOD;
	if (c->state == AGENT_CONTAINER_STARTING)
		return SHADE_WARN;
	return c->how == AGENT_END_EXITED && c->code == 0 ? SHADE_NONE : SHADE_BAD;
}

/* The digest, where nothing else is known. */
static const char *image_of(const struct container *c)
{
	return *c->image_name ? c->image_name : c->image;
}

static void add_row(struct table *t, const struct container *c, int64_t now_ns)
{
	cleanup_buf struct buf created = {0}, status = {0};
	char command[41];

	buf_init(&created, CELL_MAX);
	buf_init(&status, CELL_MAX);
	container_age(now_ns - c->created_ns, &created);
	buf_putf(&created, " ago");
	container_status(c, now_ns, &status);
	text_escape(c->command, command, sizeof(command)); /* and cuts it */
	const char *const cells[] = {
		c->id, c->name, image_of(c), command, buf_cstr(&created), buf_cstr(&status)};
	table_row(t, shade_of(c), cells);
}

static int show_one(const struct args *a, const struct container *c, struct table *t, json_t *list,
	struct err *e)
{
	if (c->state == AGENT_CONTAINER_ENDED && !args_on(a, "all"))
		return 0;
	if (list) {
		if (json_array_append_new(list, container_json(c)) < 0)
			return err_set(e, ERR_IO, ENOMEM, "out of memory");
		return 0;
	}
	if (args_on(a, "quiet"))
		output_line("%s", c->id);
	else
		add_row(t, c, clock_wall_ns());
	return 0;
}

int cmd_sandbox_ps(const struct args *a, struct err *e)
{
	static const char *const headers[] = {
		"ID", "NAME", "IMAGE", "COMMAND", "CREATED", "STATUS", NULL};
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	cleanup_table struct table t = {0};
	cleanup_json *list = args_on(a, "json") ? json_array() : NULL;
	cleanup_json *result = NULL;
	int r;

	table_init(&t, headers, 5);
	if ((r = session_open(a->operands[0], &c, &s, e)) < 0 ||
		(r = containers_list(&c, &s, &result, e)) < 0)
		return r;
	for (size_t i = 0; i < containers_count(result); i++) {
		struct container one;
		if ((r = container_decode(result, i, &one, e)) < 0 ||
			(r = show_one(a, &one, &t, list, e)) < 0)
			return r;
	}
	if (list)
		return output_json(json_incref(list), e);
	return args_on(a, "quiet") ? 0 : table_print(&t, e);
}
