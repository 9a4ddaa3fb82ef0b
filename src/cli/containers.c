/* SPDX-License-Identifier: Apache-2.0 */
#include "containers.h"

#include "connect.h"

#include "../base/clock.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define LIST_MS 30000
#define TEXT_MAX 1024
#define NS_PER_S INT64_C(1000000000)

static const char *const states[] = {
	[AGENT_CONTAINER_STARTING] = "starting",
	[AGENT_CONTAINER_RUNNING] = "running",
	[AGENT_CONTAINER_ENDED] = "ended",
};
static_assert(sizeof(states) / sizeof(states[0]) == AGENT_CONTAINER_STATE_COUNT, "a name for each");

static const char *const ends[] = {
	[AGENT_END_EXITED] = "exited",
	[AGENT_END_SIGNALED] = "signaled",
	[AGENT_END_TIMEOUT] = "timeout",
	[AGENT_END_KILLED] = "killed",
	[AGENT_END_DETACHED] = "detached",
	[AGENT_END_LOST] = "lost",
};
static_assert(sizeof(ends) / sizeof(ends[0]) == AGENT_END_COUNT, "a name for each");

int containers_list(
	const struct context *c, const struct sandbox *s, json_t **ret_result, struct err *e)
{
	cleanup_json *result = NULL;
	json_t *list;
	int r;

	if ((r = supervisor_ask(
		     s, context_request(c, "ps"), clock_mono_ms() + LIST_MS, &result, e)) < 0)
		return r;
	if ((r = json_get_array(result, "containers", AGENT_CONTAINERS_MAX, &list, e)) < 0)
		return err_wrap(e, "the containers of %s", s->row.name);
	*ret_result = json_incref(result);
	return 0;
}

size_t containers_count(const json_t *result)
{
	return json_array_size(json_object_get(result, "containers"));
}

static int get_name(const json_t *o, const char *key, const char *const *names, size_t n,
	size_t fallback, size_t *ret, struct err *e)
{
	const char *name;
	int r = json_get_str_or(o, key, 32, names[fallback], &name, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		if (strcmp(names[i], name) == 0) {
			*ret = i;
			return 0;
		}
	}
	return err_set(e, ERR_PROTOCOL, 0, "\"%s\" is \"%.32s\"", key, name);
}

static int get_text(const json_t *o, struct container *m, struct err *e)
{
	int r;

	if ((r = json_get_str(o, "id", AGENT_NAME_SIZE, &m->id, e)) < 0 ||
		(r = json_get_str_or(o, "name", TEXT_MAX, "", &m->name, e)) < 0 ||
		(r = json_get_str_or(o, "image", TEXT_MAX, "", &m->image, e)) < 0 ||
		(r = json_get_str_or(o, "image_name", TEXT_MAX, "", &m->image_name, e)) < 0)
		return r;
	return json_get_str_or(o, "command", 4 * TEXT_MAX, "", &m->command, e);
}

static int get_numbers(const json_t *o, struct container *m, struct err *e)
{
	uint64_t created = 0, ended = 0;
	int r;

	if ((r = json_get_u64_or(o, "code", UINT32_MAX, 0, &m->code, e)) < 0 ||
		(r = json_get_u64_or(o, "created_ns", INT64_MAX, 0, &created, e)) < 0 ||
		(r = json_get_u64_or(o, "ended_ns", INT64_MAX, 0, &ended, e)) < 0 ||
		(r = json_get_u64_or(o, "processes", UINT32_MAX, 0, &m->processes, e)) < 0 ||
		(r = json_get_u64_or(o, "memory_bytes", INT64_MAX, 0, &m->memory_bytes, e)) < 0 ||
		(r = json_get_bool_or(o, "oom", false, &m->oom, e)) < 0 ||
		(r = json_get_bool_or(o, "kept", false, &m->kept, e)) < 0 ||
		(r = json_get_bool_or(o, "tty", false, &m->tty, e)) < 0 ||
		(r = json_get_bool_or(o, "stdin", false, &m->stdin_open, e)) < 0)
		return r;
	m->created_ns = (int64_t)created;
	m->ended_ns = (int64_t)ended;
	return json_get_bool_or(o, "attached", false, &m->attached, e);
}

int container_decode(const json_t *result, size_t i, struct container *ret, struct err *e)
{
	const json_t *o = json_array_get(json_object_get(result, "containers"), i);
	struct container m = {0};
	size_t state = 0, how = 0;
	int r;

	if (!json_is_object(o))
		return err_set(e, ERR_PROTOCOL, 0, "the list of containers has what is none");
	if ((r = get_text(o, &m, e)) < 0 || (r = get_numbers(o, &m, e)) < 0 ||
		(r = get_name(o, "state", states, AGENT_CONTAINER_STATE_COUNT,
			 AGENT_CONTAINER_RUNNING, &state, e)) < 0 ||
		(r = get_name(o, "how", ends, AGENT_END_COUNT, AGENT_END_EXITED, &how, e)) < 0)
		return err_wrap(e, "the list of containers");
	m.state = (enum agent_container_state)state;
	m.how = (enum agent_end)how;
	*ret = m;
	return 0;
}

int container_find(const json_t *result, const char *ref, struct container *ret, struct err *e)
{
	size_t n = containers_count(result), begins = 0;
	struct container one, found = {0};
	int r;

	for (size_t i = 0; i < n; i++) {
		if ((r = container_decode(result, i, &one, e)) < 0)
			return r;
		if (strcmp(one.id, ref) == 0 || strcmp(one.name, ref) == 0) {
			*ret = one;
			return 1;
		}
		if (strncmp(one.id, ref, strlen(ref)) == 0) {
			found = one;
			begins++;
		}
	}
	if (begins != 1)
		return 0;
	*ret = found;
	return 1;
}

static json_t *time_json(int64_t ns)
{
	char text[CLOCK_RFC3339_SIZE];

	if (ns <= 0)
		return json_null();
	clock_rfc3339(ns, text);
	return json_string(text);
}

json_t *container_json(const struct container *c)
{
	bool ended = c->state == AGENT_CONTAINER_ENDED;

	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s?, s:o, s:b, s:o, s:o, s:I, s:I, s:b, "
			 "s:b, s:b, s:b}",
		"id", c->id, "name", c->name, "image", c->image, "image_name", c->image_name,
		"command", c->command, "state", states[c->state], "how",
		ended ? ends[c->how] : NULL, "code",
		ended ? json_integer((json_int_t)c->code) : json_null(), "oom", c->oom, "created",
		time_json(c->created_ns), "ended", time_json(c->ended_ns), "processes",
		(json_int_t)c->processes, "memory_bytes", (json_int_t)c->memory_bytes, "kept",
		c->kept, "tty", c->tty, "stdin", c->stdin_open, "attached", c->attached);
}

void container_age(int64_t ns, struct buf *b)
{
	int64_t s = ns > 0 ? ns / NS_PER_S : 0, minutes = s / 60, hours = (minutes + 30) / 60;

	if (s < 1)
		buf_putf(b, "Less than a second");
	else if (s == 1)
		buf_putf(b, "1 second");
	else if (s < 60)
		buf_putf(b, "%d seconds", (int)s);
	else if (minutes == 1)
		buf_putf(b, "About a minute");
	else if (minutes < 60)
		buf_putf(b, "%d minutes", (int)minutes);
	else if (hours == 1)
		buf_putf(b, "About an hour");
	else if (hours < 48)
		buf_putf(b, "%d hours", (int)hours);
	else if (hours < 24 * 14)
		buf_putf(b, "%d days", (int)(hours / 24));
	else if (hours < 24 * 60)
		buf_putf(b, "%d weeks", (int)(hours / 24 / 7));
	else if (hours < 24 * 365 * 2)
		buf_putf(b, "%d months", (int)(hours / 24 / 30));
	else
		buf_putf(b, "%d years", (int)(hours / 24 / 365));
}

static void put_ago(const struct container *c, int64_t now_ns, struct buf *b)
{
	container_age(now_ns - c->ended_ns, b);
	buf_putf(b, " ago%s", c->oom ? ", out of memory" : "");
}

static void put_end(const struct container *c, int64_t now_ns, struct buf *b)
{
	switch (c->how) {
	case AGENT_END_EXITED:
		buf_putf(b, "Exited (%d) ", (int)c->code);
		break;
	case AGENT_END_SIGNALED:
		if (c->oom)
			buf_putf(b, "Exited (%d) ", 128 + (int)(c->code & 127));
		else
			buf_putf(b, "Ended by signal %d, ", (int)c->code);
		break;
	case AGENT_END_TIMEOUT:
		buf_putf(b, "Timed out ");
		break;
	case AGENT_END_KILLED:
		buf_putf(b, "Killed ");
		break;
	case AGENT_END_LOST:
		buf_putf(b, "Lost ");
		put_ago(c, now_ns, b);
		buf_putf(b, ": the sandbox was stopped");
		return;
	case AGENT_END_DETACHED:
	case AGENT_END_COUNT:
		buf_putf(b, "Ended ");
		break;
	}
	put_ago(c, now_ns, b);
}

void container_status(const struct container *c, int64_t now_ns, struct buf *b)
{
	switch (c->state) {
	case AGENT_CONTAINER_STARTING:
		buf_putf(b, "Starting");
		break;
	case AGENT_CONTAINER_RUNNING:
		buf_putf(b, "Up ");
		container_age(now_ns - c->created_ns, b);
		break;
	case AGENT_CONTAINER_ENDED:
	case AGENT_CONTAINER_STATE_COUNT:
		put_end(c, now_ns, b);
		break;
	}
}
