/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include "connect.h"
#include "holder.h"
#include "output.h"
#include "session.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/strv.h"

#include <errno.h>
#include <string.h>

#define DESTROY_MS 5000
#define END_MS 10000
#define REMOVE_MS 60000

/* Asks the supervisor to end the VM, and ends the supervisor when it does not: QEMU ends with it.
 */
static int destroy(const struct context *c, const struct sandbox *s, struct err *e)
{
	cleanup_json *result = NULL;
	cleanup_fd int holder = holder_find(s->dirfd);
	struct err silent;
	int64_t deadline = clock_mono_ms() + DESTROY_MS;

	if (holder < 0) /* it ended by itself, or another command holds the lock */
		return 0;
	if (s->state == LIVE_RUNNING &&
		supervisor_ask(s, context_request(c, "destroy"), deadline, &result, &silent) >= 0 &&
		holder_wait(holder, deadline))
		return 0;
	int r = holder_kill(holder);
	if (r < 0 && r != -ESRCH)
		return err_errno(e, -r, "cannot end the supervisor of %s", s->row.name);
	if (!holder_wait(holder, clock_mono_ms() + END_MS))
		return err_set(e, ERR_TIMEOUT, 0, "the supervisor of %s does not end", s->row.name);
	return 0;
}

static int remove_all(struct context *c, const struct sandbox *s, bool force, struct err *e)
{
	cleanup_fd int lock = -1;
	int r;

	if (s->alive && force && (r = destroy(c, s, e)) < 0)
		return r;
	if (s->dirfd >= 0 && (r = home_sandbox_lock(s->dirfd, &lock, e)) < 0)
		return err_wrap(e, "%s", s->row.name);
	if ((r = catalog_sandbox_set_state(c->catalog, s->row.id, SANDBOX_REMOVING, NULL, e)) < 0 ||
		(r = home_sandbox_remove(&c->home, s->row.id, e)) < 0)
		return r;
	return catalog_sandbox_delete(c->catalog, s->row.id, e);
}

static int rm_one(struct context *c, const char *name, bool force, struct err *e)
{
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	int r = sandbox_open(c, name, &s, e);

	if (r < 0)
		return r;
	if (s.alive && !force) {
		(void)err_set(e, ERR_WRONG_STATE, 0, "the sandbox %s is %s", name,
			live_state_name(s.state));
		return err_hint(e, "kosa8 sandbox rm --force %s", name);
	}
	struct action a = {.frees_space = true,
		.event = {.action = "sandbox.rm", .sandbox = s.row.name, .sandbox_id = s.row.id}};
	if ((r = action_begin(c, &a, e)) < 0)
		return r;
	return action_end(c, &a, remove_all(c, &s, force, e), e);
}

/* NAME/CONTAINER */
static int rm_container(
	struct context *c, const char *operand, const char *container, bool force, struct err *e)
{
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	cleanup_json *result = NULL;
	cleanup_str char *name = strndup(operand, (size_t)(container - operand) - 1);
	int r;

	if (!name)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	if ((r = session_check_container(container, e)) < 0 ||
		(r = sandbox_open(c, name, &s, e)) < 0)
		return r;
	json_t *request = context_request(c, "container-rm");
	(void)json_object_set_new(request, "container", json_string(container));
	(void)json_object_set_new(request, "force", json_boolean(force));
	r = supervisor_ask(&s, request, clock_mono_ms() + REMOVE_MS, &result, e);
	if (r < 0 && e->kind == ERR_WRONG_STATE && s.state == LIVE_RUNNING && !force && !*e->hint)
		(void)err_hint(e, "kosa8 sandbox rm --force %s", operand);
	return r;
}

static int rm_operand(struct context *c, const char *operand, bool force, struct err *e)
{
	const char *slash = strchr(operand, '/');

	return slash ? rm_container(c, operand, slash + 1, force, e) : rm_one(c, operand, force, e);
}

int cmd_sandbox_rm(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	int r = context_open(&c, e), status = 0;

	if (r < 0)
		return r;
	context_sweep(&c);
	for (size_t i = 0; i < a->operands_len; i++) {
		struct err one;
		if (rm_operand(&c, a->operands[i], args_on(a, "force"), &one) < 0) {
			output_error(&one);
			status = 1;
		} else {
			output_line("%s", a->operands[i]);
		}
	}
	return status;
}
