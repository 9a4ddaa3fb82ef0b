/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include "agent.h"

#include "../base/strv.h"
#include "../base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void client_run_release(struct client_run *r)
{
	strv_free(r->argv);
	strv_free(r->entrypoint);
	strv_free(r->env);
	*r = (struct client_run){0};
}

/* Sets the member when value is there; takes value. */
static int set(json_t *o, const char *key, json_t *value)
{
	return json_object_set_new(o, key, value) < 0 ? -ENOMEM : 0;
}

static int set_str(json_t *o, const char *key, const char *value)
{
	return value ? set(o, key, json_string(value)) : 0;
}

static int set_u64(json_t *o, const char *key, uint64_t value)
{
	return value ? set(o, key, json_integer((json_int_t)value)) : 0;
}

json_t *client_bytes_encode(char *const *v)
{
	json_t *a = json_array();

	for (; a && v && *v; v++) {
		size_t len = strlen(*v);
		if (text_is_utf8(*v, len)) {
			(void)json_array_append_new(a, json_string(*v));
			continue;
		}
		char *hex = malloc(2 * len + 1);
		if (hex)
			text_hex(*v, len, hex);
		(void)json_array_append_new(a, json_pack("{s:s?}", "hex", hex));
		free(hex);
	}
	return a;
}

static int hex_decode(const json_t *item, char **ret, struct err *e)
{
	const char *hex;
	int r = json_get_str(item, "hex", 2 * AGENT_ARGS_BYTES_MAX, &hex, e);

	if (r < 0)
		return r;
	size_t len = strlen(hex) / 2;
	cleanup_str char *s = calloc(1, len + 1);
	if (!s)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	if (strlen(hex) % 2 != 0 || !text_unhex(hex, (unsigned char *)s, len) || strlen(s) != len)
		return err_set(
			e, ERR_PROTOCOL, 0, "\"hex\" must be pairs of hex digits, none of them 00");
	*ret = s;
	s = NULL;
	return 0;
}

int client_bytes_decode(const json_t *o, const char *key, char ***ret, struct err *e)
{
	cleanup_strv char **v = strv_new();
	json_t *array = NULL, *item;
	size_t i, total = 0;
	int r;

	if (json_object_get(o, key) && (r = json_get_array(o, key, AGENT_ARGS_MAX, &array, e)) < 0)
		return r;
	json_array_foreach (array, i, item) {
		cleanup_str char *bytes = NULL;
		const char *s = json_string_value(item);
		if (!s && (r = hex_decode(item, &bytes, e)) < 0)
			return r;
		s = s ? s : bytes;
		if (json_is_string(item) && strlen(s) != json_string_length(item))
			return err_set(e, ERR_PROTOCOL, 0, "\"%s\" has a NUL in it", key);
		total += strlen(s) + 1;
		if (total > AGENT_ARGS_BYTES_MAX)
			return err_set(e, ERR_LIMIT, 0, "\"%s\" is longer than %u bytes", key,
				AGENT_ARGS_BYTES_MAX);
		if (!v || strv_add(&v, s) < 0)
			return err_set(e, ERR_IO, ENOMEM, "out of memory");
	}
	if (!v)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	*ret = strv_take(&v);
	return 0;
}

int client_run_encode(const struct client_run *r, json_t *request)
{
	if (set_str(request, "image", r->image) < 0 ||
		set(request, "argv", client_bytes_encode(r->argv)) < 0 ||
		(r->entrypoint &&
			set(request, "entrypoint", client_bytes_encode(r->entrypoint)) < 0) ||
		set(request, "env", client_bytes_encode(r->env)) < 0 ||
		set_str(request, "cwd", r->cwd) < 0 || set_str(request, "user", r->user) < 0 ||
		set_str(request, "name", r->name) < 0 ||
		set_str(request, "image_name", r->image_name) < 0 ||
		set_u64(request, "timeout_ms", r->timeout_ms) < 0 ||
		set_u64(request, "memory_bytes", r->memory_bytes) < 0 ||
		set_u64(request, "pids", r->pids) < 0 ||
		set_u64(request, "cpu_milli", r->cpu_milli) < 0 ||
		set_u64(request, "rows", r->rows) < 0 ||
		set_u64(request, "columns", r->columns) < 0 ||
		set(request, "stdin", json_boolean(r->stdin_open)) < 0 ||
		set(request, "tty", json_boolean(r->tty)) < 0 ||
		set(request, "detach", json_boolean(r->detach)) < 0)
		return -ENOMEM;
	return 0;
}

int client_run_decode(const json_t *o, struct client_run *ret, struct err *e)
{
	struct client_run m = {0};
	int r;

	if ((r = json_get_str(o, "image", 71, &m.image, e)) < 0 ||
		(r = client_bytes_decode(o, "argv", &m.argv, e)) < 0 ||
		(r = client_bytes_decode(o, "env", &m.env, e)) < 0 ||
		(json_object_get(o, "entrypoint") &&
			(r = client_bytes_decode(o, "entrypoint", &m.entrypoint, e)) < 0) ||
		(r = json_get_str_or(o, "cwd", 4000, NULL, &m.cwd, e)) < 0 ||
		(r = json_get_str_or(o, "user", 256, NULL, &m.user, e)) < 0 ||
		(r = json_get_str_or(o, "name", 63, NULL, &m.name, e)) < 0 ||
		(r = json_get_u64_or(o, "timeout_ms", UINT64_C(31536000000), 0, &m.timeout_ms, e)) <
			0 ||
		(r = json_get_u64_or(o, "memory_bytes", UINT64_C(1) << 50, 0, &m.memory_bytes, e)) <
			0 ||
		(r = json_get_u64_or(o, "pids", 1u << 22, 0, &m.pids, e)) < 0 ||
		(r = json_get_str_or(o, "image_name", 255, NULL, &m.image_name, e)) < 0 ||
		(r = json_get_u64_or(o, "cpu_milli", 1000 * 1024, 0, &m.cpu_milli, e)) < 0 ||
		(r = json_get_u64_or(o, "rows", UINT16_MAX, 0, &m.rows, e)) < 0 ||
		(r = json_get_u64_or(o, "columns", UINT16_MAX, 0, &m.columns, e)) < 0 ||
		(r = json_get_bool_or(o, "tty", false, &m.tty, e)) < 0 ||
		(r = json_get_bool_or(o, "detach", false, &m.detach, e)) < 0 ||
		(r = json_get_bool_or(o, "stdin", false, &m.stdin_open, e)) < 0) {
		client_run_release(&m);
		return r;
	}
	*ret = m;
	return 0;
}

void client_exec_release(struct client_exec *x)
{
	strv_free(x->argv);
	strv_free(x->env);
	*x = (struct client_exec){0};
}

int client_exec_encode(const struct client_exec *x, json_t *request)
{
	if (set_str(request, "container", x->container) < 0 ||
		set(request, "argv", client_bytes_encode(x->argv)) < 0 ||
		set(request, "env", client_bytes_encode(x->env)) < 0 ||
		set_str(request, "cwd", x->cwd) < 0 || set_str(request, "user", x->user) < 0 ||
		set_u64(request, "timeout_ms", x->timeout_ms) < 0 ||
		set_u64(request, "rows", x->rows) < 0 ||
		set_u64(request, "columns", x->columns) < 0 ||
		set(request, "stdin", json_boolean(x->stdin_open)) < 0 ||
		set(request, "tty", json_boolean(x->tty)) < 0)
		return -ENOMEM;
	return 0;
}

int client_exec_decode(const json_t *o, struct client_exec *ret, struct err *e)
{
	struct client_exec m = {0};
	int r;

	if ((r = json_get_str(o, "container", 63, &m.container, e)) < 0 ||
		(r = client_bytes_decode(o, "argv", &m.argv, e)) < 0 ||
		(r = client_bytes_decode(o, "env", &m.env, e)) < 0 ||
		(r = json_get_str_or(o, "cwd", 4000, NULL, &m.cwd, e)) < 0 ||
		(r = json_get_str_or(o, "user", 256, NULL, &m.user, e)) < 0 ||
		(r = json_get_u64_or(o, "timeout_ms", UINT64_C(31536000000), 0, &m.timeout_ms, e)) <
			0 ||
		(r = json_get_u64_or(o, "rows", UINT16_MAX, 0, &m.rows, e)) < 0 ||
		(r = json_get_u64_or(o, "columns", UINT16_MAX, 0, &m.columns, e)) < 0 ||
		(r = json_get_bool_or(o, "stdin", false, &m.stdin_open, e)) < 0 ||
		(r = json_get_bool_or(o, "tty", false, &m.tty, e)) < 0) {
		client_exec_release(&m);
		return r;
	}
	*ret = m;
	return 0;
}

json_t *client_error_encode(const struct err *e)
{
	return json_pack("{s:s, s:i, s:s, s:s}", "kind", err_kind_name(e->kind), "errno", e->errnum,
		"what", e->what, "hint", e->hint);
}

void client_error_decode(const json_t *o, struct err *ret)
{
	struct err ignored;
	const char *kind, *what, *hint;
	uint64_t errnum;

	if (json_get_str(o, "kind", 32, &kind, &ignored) < 0 ||
		json_get_str(o, "what", ERR_WHAT_MAX, &what, &ignored) < 0 ||
		json_get_str_or(o, "hint", ERR_HINT_MAX, "", &hint, &ignored) < 0 ||
		json_get_u64_or(o, "errno", 4095, 0, &errnum, &ignored) < 0) {
		(void)err_set(
			ret, ERR_PROTOCOL, 0, "the supervisor sent an error that cannot be read");
		return;
	}
	(void)err_set(ret, err_kind_from_name(kind), (int)errnum, "%s", what);
	if (*hint)
		(void)err_hint(ret, "%s", hint);
}
