/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox mount add, rm and ls. */
#include "commands.h"

#include "output.h"
#include "spec-change.h"

#include "../base/fd.h"

#include <stdlib.h>
#include <string.h>

static int add_stopped(struct spec *s, void *ctx, struct err *e)
{
	return spec_mounts_add(&s->mounts, ctx, e);
}

int cmd_sandbox_mount_add(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	cleanup_spec_mount struct spec_mount m = {0};
	cleanup_json *result = NULL;
	cleanup_fd int fd = -1;
	char *path = NULL;
	int r;

	if ((r = spec_mount_parse(a->operands[1], &m, e)) < 0 || (r = context_open(&c, e)) < 0 ||
		(r = sandbox_open(&c, a->operands[0], &s, e)) < 0 ||
		(r = spec_mount_open(m.host, c.home.dirfd, &fd, &path, e)) < 0)
		return r;
	free(m.host);
	m.host = path;
	cleanup_json *members = json_pack("{s:s, s:s, s:s}", "host", m.host, "guest", m.guest,
		"mode", mount_mode_name(m.mode));
	struct spec_change change = {.op = "mount-add",
		.action = "mount.add",
		.members = members,
		.apply = add_stopped,
		.ctx = &m};
	return spec_change(&c, &s, &change, &result, e);
}

static int rm_stopped(struct spec *s, void *ctx, struct err *e)
{
	size_t at;
	int r = spec_mounts_find(&s->mounts, ctx, &at, e);

	if (r == 0)
		spec_mounts_remove(&s->mounts, at);
	return r;
}

static int decode_spec(const struct sandbox *s, struct spec *ret, struct err *e)
{
	int r = spec_decode(s->row.spec, ret, e);

	return r < 0 ? err_wrap(e, "%s", s->row.name) : 0;
}

int cmd_sandbox_mount_rm(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	cleanup_spec struct spec spec = {0};
	cleanup_json *result = NULL;
	size_t at;
	int r;

	if ((r = context_open(&c, e)) < 0 || (r = sandbox_open(&c, a->operands[0], &s, e)) < 0 ||
		(r = decode_spec(&s, &spec, e)) < 0)
		return r;
	if ((r = spec_mounts_find(&spec.mounts, a->operands[1], &at, e)) < 0)
		return err_hint(e, "kosa8 sandbox mount ls %s", s.row.name);
	struct spec_mount *m = &spec.mounts.list[at];
	cleanup_json *members = json_pack("{s:s}", "guest", m->guest);
	struct spec_change change = {.op = "mount-rm",
		.action = "mount.rm",
		.members = members,
		.apply = rm_stopped,
		.ctx = m->guest};
	return spec_change(&c, &s, &change, &result, e);
}

/* What the supervisor says of this mount. */
static const json_t *live_of(const json_t *live, const char *guest)
{
	const json_t *item;
	size_t i;

	json_array_foreach (live, i, item) {
		const char *at = json_string_value(json_object_get(item, "guest"));
		if (at && strcmp(at, guest) == 0)
			return item;
	}
	return NULL;
}

int cmd_sandbox_mount_ls(const struct args *a, struct err *e)
{
	static const char *const headers[] = {"GUEST", "HOST", "MODE", "STATE", "ERROR", NULL};
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	cleanup_spec struct spec spec = {0};
	cleanup_table struct table t;
	cleanup_json *list = json_array(), *live = NULL;
	int r;

	table_init(&t, headers, 3);
	if ((r = context_open(&c, e)) < 0 || (r = sandbox_open(&c, a->operands[0], &s, e)) < 0 ||
		(r = decode_spec(&s, &spec, e)) < 0)
		return r;
	live = spec.mounts.len > 0 ? spec_live(&c, &s, "mounts") : NULL;
	for (size_t i = 0; i < spec.mounts.len; i++) {
		const struct spec_mount *m = &spec.mounts.list[i];
		const json_t *now = live_of(live, m->guest);
		const char *state = json_string_value(json_object_get(now, "state"));
		const char *error = json_string_value(json_object_get(now, "error"));
		const char *const cells[] = {
			m->guest, m->host, mount_mode_name(m->mode), state, error};
		enum shade shade = !state			  ? SHADE_NONE
				   : strcmp(state, "failed") == 0 ? SHADE_BAD
								  : SHADE_GOOD;
		table_row(&t, shade, cells);
		(void)json_array_append_new(
			list, json_pack("{s:I, s:s, s:s, s:s, s:s?, s:s?}", "id", (json_int_t)m->id,
				      "guest", m->guest, "host", m->host, "mode",
				      mount_mode_name(m->mode), "state", state, "error", error));
	}
	return args_on(a, "json") ? output_json(json_incref(list), e) : table_print(&t, e);
}
