/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include "output.h"
#include "spec-change.h"
#include "start.h"

#include "../base/fd.h"
#include "../base/strv.h"
#include "../base/text.h"
#include "../store/spec.h"

#include <errno.h>
#include <string.h>

static int out_of_memory(struct err *e)
{
	return err_set(e, ERR_IO, ENOMEM, "out of memory");
}

static int take_egress(const struct args *a, struct spec *s, struct err *e)
{
	const char *mode = args_value(a, "egress");
	const char *const *allow = args_list(a, "egress-allow");

	if (mode && strcmp(mode, "deny") != 0 && strcmp(mode, "any") != 0 &&
		strcmp(mode, "fakenet") != 0)
		return err_set(
			e, ERR_USAGE, 0, "--egress: \"%.60s\" is none of deny, any, fakenet", mode);
	if (mode && *allow)
		return err_set(
			e, ERR_USAGE, 0, "--egress %s and --egress-allow exclude each other", mode);
	if (mode && strcmp(mode, "any") == 0)
		s->egress = EGRESS_ANY;
	else if (mode && strcmp(mode, "fakenet") == 0)
		s->egress = EGRESS_FAKENET;
	else if (*allow)
		s->egress = EGRESS_ALLOW_LIST;
	for (; *allow; allow++)
		if (strv_add(&s->egress_allow, *allow) < 0)
			return out_of_memory(e);
	return 0;
}

static int take_env(const struct args *a, struct spec *s, struct err *e)
{
	for (const char *const *env = args_list(a, "env"); *env; env++) {
		if (!strchr(*env, '=') || **env == '=' || !text_is_utf8(*env, strlen(*env)))
			return err_set(e, ERR_USAGE, 0, "--env: \"%.60s\" is not K=V", *env);
		if (strv_env_set(&s->env, *env) < 0)
			return out_of_memory(e);
	}
	return 0;
}

static int take_spec(const struct args *a, struct spec *s, struct err *e)
{
	uint64_t cpus = s->cpus, memory = s->memory_mb, disk = s->disk_gb;
	int r;

	if ((r = args_u64(a, "cpus", 1, UINT32_MAX, &cpus, e)) < 0 ||
		(r = args_u64(a, "memory", 1, UINT32_MAX, &memory, e)) < 0 ||
		(r = args_u64(a, "disk", 1, UINT32_MAX, &disk, e)) < 0 ||
		(r = take_egress(a, s, e)) < 0 || (r = take_env(a, s, e)) < 0 ||
		(r = spec_take_ports(a, s, e)) < 0)
		return r;
	s->cpus = (uint32_t)cpus;
	s->memory_mb = (uint32_t)memory;
	s->disk_gb = (uint32_t)disk;
	if ((r = spec_check(s, e)) < 0)
		return r;
	if (s->egress != EGRESS_DENY) {
		(void)err_set(e, ERR_UNSUPPORTED, 0,
			"sandbox create: not yet: egress other than deny comes with a later "
			"version");
		return err_hint(e, "--egress deny");
	}
	return 0;
}

static int check_name(const char *name, struct err *e)
{
	if (text_is_sandbox_name(name))
		return 0;
	(void)err_set(e, ERR_INVALID, 0, "\"%.80s\" cannot name a sandbox", name);
	return err_hint(
		e, "1 to 63 of a-z 0-9 _ . -, the first a letter or digit; not ls, rm, diff");
}

/* The row is there; all that follows from it is undone by the caller. */
static int start_new(struct context *c, const struct sandbox_row *row, int lock_fd,
	struct action *a, struct err *e)
{
	struct sandbox s = {.row = *row};

	s.dirfd = home_sandbox_dir(&c->home, row->id, false, e);
	if (s.dirfd < 0)
		return s.dirfd;
	int r = supervisor_start(c, &s, lock_fd, "new", NULL, a, e);
	s.dirfd = fd_close(s.dirfd);
	return r;
}

static int undo(struct context *c, const char *id, int result)
{
	struct err second;

	if (home_sandbox_remove(&c->home, id, &second) < 0 ||
		catalog_sandbox_delete(c->catalog, id, &second) < 0)
		output_notice("kosa8: cleaning up: %s", second.what);
	return result;
}

static int create(
	struct context *c, const char *name, const char *json, struct action *a, struct err *e)
{
	struct sandbox_row row = {0};
	cleanup_fd int lock = -1;
	int r = catalog_sandbox_add(c->catalog, name, json, &row, &lock, e);

	if (r >= 0) {
		a->event.sandbox_id = row.id;
		r = start_new(c, &row, lock, a, e);
		if (r < 0)
			r = undo(c, row.id, r);
	}
	r = action_end(c, a, r, e);
	sandbox_row_release(&row);
	return r;
}

int cmd_sandbox_create(const struct args *a, struct err *e)
{
	const char *name = a->operands[0];
	cleanup_spec struct spec spec;
	cleanup_context struct context c = {0};
	char policy[65];
	int r;

	spec_init(&spec);
	if ((r = check_name(name, e)) < 0 || (r = take_spec(a, &spec, e)) < 0 ||
		(r = context_open(&c, e)) < 0 || (r = spec_take_mounts(&c, a, &spec, e)) < 0 ||
		(r = spec_policy_hash(&spec, policy, e)) < 0)
		return r;
	cleanup_str char *json = spec_encode(&spec);
	cleanup_json *bound = json_pack("{s:s}", "policy", policy);
	if (!json || !bound)
		return out_of_memory(e);
	cleanup_json *detail = json_loads(json, 0, NULL);
	struct action action = {.event = {.action = "sandbox.create",
					.sandbox = name,
					.bound = bound,
					.detail = detail}};
	context_sweep(&c);
	if ((r = action_begin(&c, &action, e)) < 0 || (r = create(&c, name, json, &action, e)) < 0)
		return r;
	for (size_t i = 0; i < spec.ports.len; i++)
		spec_notice_port(&spec.ports.list[i]);
	output_line("%s", name);
	return 0;
}
