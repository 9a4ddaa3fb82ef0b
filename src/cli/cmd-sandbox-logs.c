/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include "log-view.h"
#include "session.h"
#include "since.h"

#include "../base/clock.h"

#include <errno.h>
#include <string.h>

static int take_since(const struct args *a, uint64_t *ret_ns, struct err *e)
{
	const char *since = args_value(a, "since");
	int64_t ns = 0;

	if (since && since_parse(since, clock_wall_ns(), &ns) < 0)
		return err_set(e, ERR_USAGE, 0,
			"--since: \"%.60s\" is neither a time such as 2026-01-31T12:00:00Z nor a "
			"duration such as 1h",
			since);
	*ret_ns = ns > 0 ? (uint64_t)ns : 0;
	return 0;
}

static int take_tail(const struct args *a, uint64_t *ret, struct err *e)
{
	const char *tail = args_value(a, "tail");

	*ret = LOG_VIEW_ALL;
	if (!tail || strcmp(tail, "all") == 0)
		return 0;
	return args_u64(a, "tail", 0, 1000000000, ret, e);
}

static json_t *logs_request(
	const struct context *c, const char *container, bool follow, uint64_t since_ns)
{
	json_t *o = context_request(c, "logs");

	(void)json_object_set_new(o, "container", json_string(container));
	(void)json_object_set_new(o, "follow", json_boolean(follow));
	(void)json_object_set_new(o, "since_ns", json_integer((json_int_t)since_ns));
	return o;
}

int cmd_sandbox_logs(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	struct log_view view;
	const char *container = a->operands[1];
	struct stream_options o = {
		.verb = "logs", .container = container, .own_signals = true, .logs = &view};
	uint64_t since_ns = 0, tail = 0;
	int r;

	if ((r = take_since(a, &since_ns, e)) < 0 || (r = take_tail(a, &tail, e)) < 0 ||
		(r = session_check_container(container, e)) < 0 ||
		(r = session_open(a->operands[0], &c, &s, e)) < 0)
		return r;
	cleanup_json *request = logs_request(&c, container, args_on(a, "follow"), since_ns);
	log_view_init(&view, tail, args_on(a, "timestamps"));
	r = session_run(&s, request, &o, e);
	log_view_release(&view);
	return r;
}
