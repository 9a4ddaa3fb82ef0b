/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox kill and sandbox wait. */
#include "commands.h"

#include "output.h"
#include "session.h"

#include "../base/clock.h"
#include "../base/text.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <strings.h>

#define KILL_MS 30000
#define SIGNAL_MAX 64

/* RTMIN, RTMIN+N, RTMAX, RTMAX-N */
static int parse_realtime(const char *s, uint64_t *ret)
{
	bool from_min = strncasecmp(s, "RTMIN", 5) == 0;
	char sign = from_min ? '+' : '-';
	uint64_t n = 0, least = (uint64_t)SIGRTMIN, most = (uint64_t)SIGRTMAX;

	if (!from_min && strncasecmp(s, "RTMAX", 5) != 0)
		return -EINVAL;
	if (s[5] && (s[5] != sign || text_parse_u64(s + 6, 0, most - least, &n) < 0))
		return -EINVAL;
	*ret = from_min ? least + n : most - n;
	return 0;
}

static int parse_signal(const char *s, uint64_t *ret, struct err *e)
{
	const char *name = strncasecmp(s, "SIG", 3) == 0 ? s + 3 : s;

	if (text_parse_u64(s, 1, SIGNAL_MAX, ret) == 0 || parse_realtime(name, ret) == 0)
		return 0;
	for (int i = 1; i < SIGNAL_MAX; i++) {
		const char *known = sigabbrev_np(i);
		if (known && strcasecmp(known, name) == 0) {
			*ret = (uint64_t)i;
			return 0;
		}
	}
	return err_set(e, ERR_USAGE, 0,
		"--signal: \"%.40s\" is no signal: a name such as TERM or SIGTERM, or a number "
		"from 1 to %d",
		s, SIGNAL_MAX);
}

int cmd_sandbox_kill(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	cleanup_json *result = NULL;
	const char *container = a->operands[1], *name = args_value(a, "signal");
	uint64_t number = SIGKILL;
	int r;

	if ((name && (r = parse_signal(name, &number, e)) < 0) ||
		(r = session_check_container(container, e)) < 0 ||
		(r = session_open(a->operands[0], &c, &s, e)) < 0)
		return r;
	json_t *request = context_request(&c, "kill");
	(void)json_object_set_new(request, "container", json_string(container));
	(void)json_object_set_new(request, "signal", json_integer((json_int_t)number));
	if ((r = supervisor_ask(&s, request, clock_mono_ms() + KILL_MS, &result, e)) < 0)
		return r;
	output_line("%s", container);
	return 0;
}

int cmd_sandbox_wait(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	const char *container = a->operands[1];
	const struct stream_options o = {
		.verb = "wait", .container = container, .own_signals = true};
	int r;

	if ((r = session_check_container(container, e)) < 0 ||
		(r = session_open(a->operands[0], &c, &s, e)) < 0)
		return r;
	cleanup_json *request = context_request(&c, "wait");
	(void)json_object_set_new(request, "container", json_string(container));
	return session_run(&s, request, &o, e);
}
