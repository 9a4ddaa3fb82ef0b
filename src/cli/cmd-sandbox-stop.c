/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include "connect.h"
#include "holder.h"
#include "output.h"

#include "../base/clock.h"
#include "../base/fd.h"

#include <string.h>

#define END_MS 10000

/* Another stop came before, and this one found an end where the supervisor was. */
static bool is_stopped_now(struct context *c, const struct sandbox *s, int holder)
{
	cleanup_sandbox struct sandbox now = {.dirfd = -1};
	struct err silent;

	if (holder >= 0 && !holder_wait(holder, clock_mono_ms() + END_MS))
		return false;
	return sandbox_open(c, s->row.name, &now, &silent) >= 0 && now.state == LIVE_STOPPED &&
	       strcmp(now.row.id, s->row.id) == 0;
}

static int stop_running(struct context *c, const struct sandbox *s, struct err *e)
{
	cleanup_json *result = NULL;
	cleanup_fd int holder = holder_find(s->dirfd);
	bool clean = true;
	int r = supervisor_ask(s, context_request(c, "stop"), -1, &result, e);

	if (r < 0 &&
		(e->kind == ERR_CANCELLED || e->kind == ERR_WRONG_STATE ||
			e->kind == ERR_UNAVAILABLE) &&
		is_stopped_now(c, s, holder)) {
		output_notice("%s is stopped already", s->row.name);
		return 0;
	}
	if (r < 0 || (r = json_get_bool_or(result, "clean", true, &clean, e)) < 0)
		return r;
	if (!clean)
		output_notice("%s did not power down itself and was ended", s->row.name);
	/* Until the process has ended it holds the lock, and a start would find it busy. */
	if (holder >= 0 && !holder_wait(holder, clock_mono_ms() + END_MS))
		output_notice("the supervisor of %s is still ending", s->row.name);
	return 0;
}

/* Its VM is gone; only the record of that has to be made. */
static int stop_crashed(struct context *c, const struct sandbox *s, struct err *e)
{
	cleanup_fd int lock = -1;
	struct action a = {
		.event = {
			.action = "sandbox.stop", .sandbox = s->row.name, .sandbox_id = s->row.id}};
	int r;

	if (s->dirfd >= 0 && (r = home_sandbox_lock(s->dirfd, &lock, e)) < 0)
		return err_wrap(e, "%s", s->row.name);
	if ((r = action_begin(c, &a, e)) < 0)
		return r;
	r = catalog_sandbox_set_state(c->catalog, s->row.id, SANDBOX_STOPPED, NULL, e);
	if ((r = action_end(c, &a, r, e)) >= 0)
		output_notice("%s had crashed; it is stopped now", s->row.name);
	return r;
}

int cmd_sandbox_stop(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	int r;

	if ((r = context_open(&c, e)) < 0 || (r = sandbox_open(&c, a->operands[0], &s, e)) < 0)
		return r;
	switch (s.state) {
	case LIVE_RUNNING:
		return stop_running(&c, &s, e);
	case LIVE_CRASHED:
		return stop_crashed(&c, &s, e);
	case LIVE_STOPPED:
		output_notice("%s is stopped already", s.row.name);
		return 0;
	case LIVE_CREATING:
	case LIVE_BUSY:
	case LIVE_REMOVING:
	case LIVE_STATE_COUNT:
		break;
	}
	return sandbox_require_running(&s, e);
}
