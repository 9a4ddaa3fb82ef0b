/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include "output.h"

#include "../proto/agent.h"

#include <assert.h>
#include <signal.h>
#include <string.h>

static const char *const ends[] = {"exited", "signaled", "timeout", "killed", "detached", "lost"};
static_assert(sizeof(ends) / sizeof(ends[0]) == AGENT_END_COUNT, "a name for each");

int stream_timed_out(const struct stream_options *o)
{
	output_notice(
		"kosa8: %s: timed out after %s", o->verb, o->timeout ? o->timeout : "its time");
	return 124;
}

/* The program goes on. */
static int left(
	const json_t *result, const char *sandbox, const struct stream_options *o, struct err *e)
{
	const char *id = o->container;
	int r;

	if (o->exec) {
		output_notice("kosa8: detached: the command goes on in %s", o->container);
		return 0;
	}
	if (!id && (r = json_get_str(result, "id", 64, &id, e)) < 0)
		return err_wrap(e, "the result of %s", o->verb);
	if (o->detached)
		output_line("%s", id);
	else
		output_notice(
			"kosa8: detached from %s; kosa8 sandbox attach %s %s", id, sandbox, id);
	return 0;
}

int stream_status(
	const json_t *result, const char *sandbox, const struct stream_options *o, struct err *e)
{
	const char *how = "";
	uint64_t code = 0;
	bool oom = false;
	size_t end = 0;
	int r;

	if ((r = json_get_str(result, "how", 16, &how, e)) < 0 ||
		(r = json_get_u64_or(result, "code", 255, 0, &code, e)) < 0 ||
		(r = json_get_bool_or(result, "oom", false, &oom, e)) < 0)
		return err_wrap(e, "the result of %s", o->verb);
	if (oom)
		output_notice(
			"kosa8: %s: out of memory: the kernel of the sandbox ended it", o->verb);
	while (end < AGENT_END_COUNT && strcmp(how, ends[end]) != 0)
		end++;
	switch ((enum agent_end)end) {
	case AGENT_END_EXITED:
		return (int)code;
	case AGENT_END_SIGNALED:
		return 128 + (int)(code & 127);
	case AGENT_END_TIMEOUT:
		return stream_timed_out(o);
	case AGENT_END_KILLED:
		return 128 + SIGKILL;
	case AGENT_END_DETACHED:
		return left(result, sandbox, o, e);
	case AGENT_END_LOST:
		return err_set(e, ERR_CANCELLED, 0,
			"the container was lost: the sandbox %s was stopped or crashed while it "
			"ran",
			sandbox);
	case AGENT_END_COUNT:
		break;
	}
	return err_set(
		e, ERR_PROTOCOL, 0, "the result of %s: \"%.16s\" is no way to end", o->verb, how);
}
