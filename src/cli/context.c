/* SPDX-License-Identifier: Apache-2.0 */
#include "context.h"

#include "../store/reserve.h"
#include "../store/spec.h"

#include "../base/fd.h"
#include "../base/log.h"
#include "../base/strv.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* For kosa8-image, wherever it is started from here. */
static int name_auth_file(const struct home *h, struct err *e)
{
	cleanup_str char *path = NULL;

	if (asprintf(&path, "%s/auth.json", h->path) < 0) {
		path = NULL;
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	}
	return setenv("KOSA8_AUTH_FILE", path, 1) < 0 ? err_errno(e, errno, "auth.json") : 0;
}

/* SQLite needs some room even to be opened. */
static int open_catalog(struct context *c, struct err *e)
{
	int r = catalog_open(&c->home, &c->catalog, e);

	if (r < 0 && e->kind == ERR_NO_SPACE && reserve_release(&c->home))
		return catalog_open(&c->home, &c->catalog, e);
	if (r >= 0)
		reserve_fill(&c->home);
	return r;
}

int context_open(struct context *ret, struct err *e)
{
	struct context c = {.home = {.dirfd = -1}};
	int r;

	if ((r = home_open(true, &c.home, e)) < 0)
		return r;
	if ((r = name_auth_file(&c.home, e)) < 0 || (r = open_catalog(&c, e)) < 0) {
		home_release(&c.home);
		return r;
	}
	audit_actor_self(&c.actor);
	*ret = c;
	return 0;
}

void context_close(struct context *c)
{
	if (!c->catalog)
		return;
	audit_close(c->audit);
	catalog_close(c->catalog);
	home_release(&c->home);
	*c = (struct context){.home = {.dirfd = -1}};
}

void context_sweep(const struct context *c)
{
	struct err e;

	if (catalog_sweep(c->catalog, &c->home, &e) < 0)
		log_warn("cleaning up: %s", e.what);
}

json_t *context_request(const struct context *c, const char *op)
{
	return json_pack("{s:s, s:o}", "op", op, "actor", audit_actor_encode(&c->actor));
}

int action_begin(struct context *c, struct action *a, struct err *e)
{
	int r;

	if (a->frees_space)
		reserve_release_if_full(&c->home);
	if (!c->audit && (r = audit_open(&c->home, c->catalog, &c->audit, e)) < 0)
		return r;
	a->event.actor = &c->actor;
	return audit_begin(c->audit, &a->event, &a->seq, e);
}

static int record_end(struct context *c, struct action *a, int result, struct err *e)
{
	struct err second;

	if (a->seq == 0)
		return result;
	if (result >= 0) {
		int r = audit_end(c->audit, &a->event, a->seq, "ok", e);
		return r < 0 ? r : result;
	}
	if (audit_end(c->audit, &a->event, a->seq, err_kind_name(e->kind), &second) < 0)
		log_warn("the end of %s could not be recorded: %s", a->event.action, second.what);
	return result;
}

int action_end(struct context *c, struct action *a, int result, struct err *e)
{
	int r = record_end(c, a, result, e);

	if (a->frees_space)
		reserve_refill(&c->home);
	return r;
}

static const char *const live_names[] = {
	[LIVE_CREATING] = "creating",
	[LIVE_RUNNING] = "running",
	[LIVE_STOPPED] = "stopped",
	[LIVE_CRASHED] = "crashed",
	[LIVE_BUSY] = "busy",
	[LIVE_REMOVING] = "removing",
};
static_assert(sizeof(live_names) / sizeof(live_names[0]) == LIVE_STATE_COUNT, "a name for each");

const char *live_state_name(enum live_state s)
{
	return live_names[s];
}

enum live_state live_state_of(enum sandbox_state state, bool alive)
{
	switch (state) {
	case SANDBOX_CREATING:
		return LIVE_CREATING;
	case SANDBOX_RUNNING:
		return alive ? LIVE_RUNNING : LIVE_CRASHED;
	case SANDBOX_STOPPED:
		return alive ? LIVE_BUSY : LIVE_STOPPED;
	case SANDBOX_CRASHED:
		return alive ? LIVE_BUSY : LIVE_CRASHED;
	case SANDBOX_REMOVING:
	case SANDBOX_STATE_COUNT:
		break;
	}
	return LIVE_REMOVING;
}

int sandbox_from_row(
	const struct context *c, struct sandbox_row *row, struct sandbox *ret, struct err *e)
{
	struct err missing;
	cleanup_fd int dirfd = home_sandbox_dir(&c->home, row->id, false, &missing);
	int alive = dirfd < 0 ? 0 : home_sandbox_alive(dirfd);

	if (alive < 0)
		return err_errno(e, -alive, "cannot tell whether %s is running", row->name);
	*ret = (struct sandbox){.row = *row,
		.dirfd = fd_take(&dirfd),
		.alive = alive > 0,
		.state = live_state_of(row->state, alive > 0)};
	*row = (struct sandbox_row){0};
	return 0;
}

int sandbox_open(const struct context *c, const char *name, struct sandbox *ret, struct err *e)
{
	struct sandbox_row row = {0};
	int r = catalog_sandbox_find(c->catalog, name, &row, e);

	if (r < 0)
		return r;
	r = sandbox_from_row(c, &row, ret, e);
	sandbox_row_release(&row);
	return r;
}

void sandbox_release(struct sandbox *s)
{
	if (s->row.name)
		s->dirfd = fd_close(s->dirfd);
	sandbox_row_release(&s->row);
}

int sandbox_require_running(const struct sandbox *s, struct err *e)
{
	const char *name = s->row.name;

	switch (s->state) {
	case LIVE_RUNNING:
		return 0;
	case LIVE_STOPPED:
		(void)err_set(e, ERR_WRONG_STATE, 0, "the sandbox %s is stopped", name);
		return err_hint(e, "kosa8 sandbox start %s", name);
	case LIVE_CRASHED:
		(void)err_set(e, ERR_WRONG_STATE, 0, "the sandbox %s has crashed%s%.200s", name,
			s->row.crash ? ": " : "", s->row.crash ? s->row.crash : "");
		return err_hint(e, "kosa8 sandbox start %s", name);
	case LIVE_CREATING:
		return err_set(
			e, ERR_WRONG_STATE, 0, "the sandbox %s is still being created", name);
	case LIVE_BUSY:
		(void)err_set(e, ERR_WRONG_STATE, 0,
			"the sandbox %s is just being started or stopped", name);
		return err_hint(e, "again in a moment (kosa8 sandbox ls)");
	case LIVE_REMOVING:
	case LIVE_STATE_COUNT:
		break;
	}
	return err_set(e, ERR_WRONG_STATE, 0, "the sandbox %s is being removed", name);
}

int sandbox_bind(
	const struct sandbox *s, const struct checkpoint_row *p, json_t **ret, struct err *e)
{
	cleanup_spec struct spec spec;
	char policy[65];
	int r;

	spec_init(&spec);
	if ((r = spec_decode(s->row.spec, &spec, e)) < 0 ||
		(r = spec_policy_hash(&spec, policy, e)) < 0)
		return err_wrap(e, "%s", s->row.name);
	*ret = json_pack("{s:s, s:s*}", "policy", policy, "checkpoint", p ? p->hash : NULL);
	return *ret ? 0 : err_set(e, ERR_IO, ENOMEM, "out of memory");
}
