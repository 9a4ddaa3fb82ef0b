/* SPDX-License-Identifier: Apache-2.0 */
#include "spec-change.h"

#include "connect.h"
#include "output.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/strv.h"

#include <errno.h>
#include <stdlib.h>

#define STATUS_MS 5000

int spec_take_mounts(const struct context *c, const struct args *a, struct spec *s, struct err *e)
{
	for (const char *const *text = args_list(a, "mount"); *text; text++) {
		cleanup_spec_mount struct spec_mount m = {0};
		cleanup_fd int fd = -1;
		char *path = NULL;
		int r = spec_mount_parse(*text, &m, e);
		if (r < 0 || (r = spec_mount_open(m.host, c->home.dirfd, &fd, &path, e)) < 0)
			return r;
		free(m.host);
		m.host = path;
		if ((r = spec_mounts_add(&s->mounts, &m, e)) < 0)
			return r;
	}
	return 0;
}

void spec_notice_port(const struct spec_port *p)
{
	char address[SPEC_ADDRESS_SIZE];

	spec_port_address(p, address);
	if (!spec_port_is_loopback(p))
		output_notice("%s is reachable from other machines", address);
}

int spec_take_ports(const struct args *a, struct spec *s, struct err *e)
{
	for (const char *const *text = args_list(a, "publish"); *text; text++) {
		struct spec_port p;
		int r = spec_port_parse(*text, &p, e);
		if (r < 0 || (r = spec_ports_add(&s->ports, &p, e)) < 0)
			return r;
	}
	return 0;
}

void spec_describe(const struct sandbox_row *row, json_t *detail)
{
	static const char *const members[] = {"mounts", "ports"};
	cleanup_json *spec = json_loads(row->spec, 0, NULL);

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		json_t *list = json_object_get(spec, members[i]);
		if (json_array_size(list) > 0)
			(void)json_object_set(detail, members[i], list);
	}
}

static int ask(const struct context *c, const struct sandbox *s, const struct spec_change *change,
	json_t **ret, struct err *e)
{
	json_t *request = context_request(c, change->op);

	if (!request || json_object_update(request, change->members) < 0) {
		json_decref(request);
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	}
	return supervisor_ask(s, request, -1, ret, e);
}

static int write_spec(
	struct context *c, const struct sandbox *s, const struct spec *spec, struct err *e)
{
	cleanup_str char *json = spec_encode(spec);

	if (!json)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	return catalog_sandbox_set_spec(c->catalog, s->row.id, json, e);
}

/* The lock is held: nobody starts it meanwhile, and the row is what it was left as. */
static int change_stopped(
	struct context *c, const struct sandbox *s, const struct spec_change *change, struct err *e)
{
	cleanup_fd int lock = -1;
	cleanup_spec struct spec spec = {0};
	cleanup_json *bound = NULL;
	struct sandbox_row row = {0};
	char policy[65];
	int r;

	if (s->dirfd < 0)
		return err_set(e, ERR_CORRUPT, 0, "the folder of %s is missing", s->row.name);
	if ((r = home_sandbox_lock(s->dirfd, &lock, e)) < 0)
		return err_wrap(e, "%s", s->row.name);
	if ((r = catalog_sandbox_get(c->catalog, s->row.id, &row, e)) < 0)
		return r;
	r = spec_decode(row.spec, &spec, e);
	sandbox_row_release(&row);
	if (r < 0 || (r = change->apply(&spec, change->ctx, e)) < 0 ||
		(r = spec_policy_hash(&spec, policy, e)) < 0)
		return r;
	bound = json_pack("{s:s}", "policy", policy);
	struct action a = {.event = {.action = change->action,
				   .sandbox = s->row.name,
				   .sandbox_id = s->row.id,
				   .bound = bound,
				   .detail = change->members}};
	if ((r = action_begin(c, &a, e)) < 0)
		return r;
	return action_end(c, &a, write_spec(c, s, &spec, e), e);
}

int spec_change(struct context *c, const struct sandbox *s, const struct spec_change *change,
	json_t **ret, struct err *e)
{
	if (!change->members)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	switch (s->state) {
	case LIVE_RUNNING:
		return ask(c, s, change, ret, e);
	case LIVE_STOPPED:
	case LIVE_CRASHED:
		return change_stopped(c, s, change, e);
	case LIVE_CREATING:
	case LIVE_BUSY:
	case LIVE_REMOVING:
	case LIVE_STATE_COUNT:
		break;
	}
	return sandbox_require_running(s, e);
}

json_t *sandbox_live(const struct context *c, const struct sandbox *s)
{
	cleanup_json *result = NULL;
	struct err e;

	if (s->state != LIVE_RUNNING)
		return NULL;
	if (supervisor_ask(s, context_request(c, "status"), clock_mono_ms() + STATUS_MS, &result,
		    &e) < 0) {
		output_notice("kosa8: %s", e.what);
		return NULL;
	}
	return json_incref(json_object_get(result, "live"));
}

json_t *spec_live(const struct context *c, const struct sandbox *s, const char *member)
{
	cleanup_json *live = sandbox_live(c, s);

	return json_incref(json_object_get(live, member));
}
