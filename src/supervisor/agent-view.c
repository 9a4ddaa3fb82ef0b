/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-view.h"

#include "../base/text.h"

#include <errno.h>
#include <string.h>

#define ID_LEN 12
#define LOWER "abcdefghijklmnopqrstuvwxyz0123456789"
#define NAME_CHARS LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ_.-"

static enum err_kind kind_of(uint32_t status, bool names_container)
{
	switch (status) {
	case EEXIST:
		return ERR_EXISTS;
	case ENOSPC:
	case EDQUOT:
		return ERR_NO_SPACE;
	case ENOENT:
		return names_container ? ERR_NOT_FOUND : ERR_INVALID;
	case ESRCH:
	case EBUSY:
		return names_container ? ERR_WRONG_STATE : ERR_INVALID;
	case EACCES:
	case EPERM:
	case EROFS:
		return names_container ? ERR_DENIED : ERR_INVALID;
	default:
		return ERR_INVALID;
	}
}

static int disk_is_full(const char *text, const char *sandbox, struct err *e)
{
	static const char full[] = "the sandbox's disk is full";

	if (!strstr(text, full))
		(void)err_wrap(e, "%s", full);
	return err_hint(e,
		"remove files in its /workspace, or containers (kosa8 sandbox rm %s/CONTAINER); a "
		"new sandbox may have a larger --disk",
		sandbox);
}

int agent_error(
	const struct agent_reply *r, bool names_container, const char *sandbox, struct err *e)
{
	char text[AGENT_TEXT_MAX];
	int errnum = (int)(r->status & 0xfff), code;
	enum err_kind kind;

	text_escape(r->text, text, sizeof(text));
	if (r->fail == AGENT_FAIL_NOT_FOUND)
		kind = ERR_CMD_NOT_FOUND;
	else if (r->fail == AGENT_FAIL_NOT_EXEC)
		kind = ERR_CMD_NOT_EXEC;
	else
		kind = kind_of(r->status, names_container);
	code = err_set(e, kind, errnum, "%s", *text ? text : strerror(errnum));
	if (kind == ERR_NO_SPACE)
		return disk_is_full(text, sandbox, e);
	/* Not what is missing in a container: a user, a file. */
	if (kind == ERR_NOT_FOUND && strstr(text, "no such container"))
		return err_hint(e, "kosa8 sandbox ps %s", sandbox);
	if (kind == ERR_EXISTS && !names_container)
		return err_hint(e, "kosa8 sandbox ps %s; remove it with kosa8 sandbox rm %s/NAME",
			sandbox, sandbox);
	return code;
}

void agent_end_put(const struct agent_exit *x, json_t *members)
{
	static const char *const how[] = {
		"exited", "signaled", "timeout", "killed", "detached", "lost"};

	_Static_assert(sizeof(how) / sizeof(how[0]) == AGENT_END_COUNT, "enum agent_end");
	(void)json_object_set_new(members, "how", json_string(how[x->how]));
	(void)json_object_set_new(members, "code", json_integer(x->code));
	(void)json_object_set_new(members, "oom", json_boolean(x->oom));
}

bool agent_name_is_valid(const char *s)
{
	return *s && strlen(s) < AGENT_NAME_SIZE && *s != '_' && *s != '.' && *s != '-' &&
	       strspn(s, NAME_CHARS) == strlen(s);
}

static json_t *text(const char *s)
{
	char escaped[AGENT_TEXT_MAX];

	text_escape(s, escaped, sizeof(escaped));
	return json_string(escaped);
}

static json_t *number(uint64_t n)
{
	return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

int agent_container_json(const struct agent_container *c, json_t **ret)
{
	static const char *const states[] = {"starting", "running", "ended"};
	size_t id_len = strlen(c->id), image_len = strlen(c->image);

	_Static_assert(sizeof(states) / sizeof(states[0]) == AGENT_CONTAINER_STATE_COUNT, "");
	if (id_len != ID_LEN || strspn(c->id, LOWER) != id_len ||
		(*c->name && !agent_name_is_valid(c->name)) || strspn(c->image, LOWER) != image_len)
		return -EPROTO;
	json_t *o = json_pack("{s:s, s:s, s:o, s:o, s:o, s:s, s:o, s:o, s:i, s:o, s:b, s:b, s:b, "
			      "s:b}",
		"id", c->id, "name", c->name, "image",
		*c->image ? json_sprintf("sha256:%s", c->image) : json_string(""), "image_name",
		text(c->image_name), "command", text(c->command), "state", states[c->state],
		"created_ns", number(c->created_ns), "ended_ns", number(c->ended_ns), "processes",
		(int)(c->processes & INT32_MAX), "memory_bytes", number(c->memory_bytes), "kept",
		(c->flags & AGENT_KEEP) != 0, "tty", (c->flags & AGENT_TTY) != 0, "stdin",
		(c->flags & AGENT_STDIN_OPEN) != 0, "attached", (int)c->attached);
	if (!o)
		return -ENOMEM;
	if (c->state == AGENT_CONTAINER_ENDED)
		agent_end_put(&c->exit, o);
	*ret = o;
	return 0;
}

int agent_ref_check(const char *ref, const char *sandbox, struct err *e)
{
	char shown[128];

	if (agent_name_is_valid(ref))
		return 0;
	text_escape(ref, shown, sizeof(shown));
	(void)err_set(e, ERR_NOT_FOUND, 0, "no such container: %s", shown);
	return err_hint(e, "kosa8 sandbox ps %s", sandbox);
}
