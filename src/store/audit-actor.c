/* SPDX-License-Identifier: Apache-2.0 */
#include "audit-record.h"

#include "../base/file.h"
#include "../base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Copies text from outside: bytes that are not UTF-8 escaped, cut at a character's end. */
static void copy_text(const char *s, char *ret, size_t size)
{
	cleanup_json *text = audit_text(s, size < 128 ? 128 : 4 * size);
	const char *safe = json_string_value(text);

	ret[0] = '\0';
	if (!safe)
		return;
	size_t n = strnlen(safe, size);
	if (n == size) {
		n--;
		while (n > 0 && !text_is_utf8(safe, n))
			n--;
	}
	memcpy(ret, safe, n);
	ret[n] = '\0';
}

/* The parent's program file, else (it is another user's) its name. "" when it has ended. */
static void parent_program(char *ret, size_t size)
{
	char link[48], path[PATH_MAX];
	cleanup_buf struct buf b = {0};

	buf_init(&b, 256);
	(void)snprintf(link, sizeof(link), "/proc/%d/exe", (int)getppid());
	ssize_t n = readlink(link, path, sizeof(path) - 1);
	if (n > 0) {
		path[n] = '\0';
		copy_text(path, ret, size);
		return;
	}
	ret[0] = '\0';
	(void)snprintf(link, sizeof(link), "/proc/%d/comm", (int)getppid());
	if (file_read(AT_FDCWD, link, &b) < 0 || !buf_cstr(&b))
		return;
	b.data[strcspn((char *)b.data, "\n")] = '\0';
	copy_text((char *)b.data, ret, size);
}

void audit_actor_self(struct audit_actor *ret)
{
	const char *name = getenv("KOSA8_ACTOR");

	*ret = (struct audit_actor){.uid = getuid(), .pid = getpid()};
	ret->terminal = isatty(STDIN_FILENO) || isatty(STDERR_FILENO);
	if (name)
		copy_text(name, ret->name, sizeof(ret->name));
	(void)snprintf(ret->kind, sizeof(ret->kind), "%s",
		ret->name[0] || !ret->terminal ? "agent" : "human");
	parent_program(ret->program, sizeof(ret->program));
}

json_t *audit_actor_encode(const struct audit_actor *a)
{
	json_t *o = json_object();

	if (json_object_set_new(o, "kind", audit_text(a->kind, sizeof(a->kind))) < 0 ||
		json_object_set_new(o, "name", audit_text(a->name, 6 * sizeof(a->name))) < 0 ||
		json_object_set_new(o, "terminal", json_boolean(a->terminal)) < 0 ||
		json_object_set_new(o, "uid", json_integer(a->uid)) < 0 ||
		json_object_set_new(o, "pid", json_integer(a->pid)) < 0 ||
		json_object_set_new(o, "program", audit_text(a->program, 6 * sizeof(a->program))) <
			0) {
		json_decref(o);
		return NULL;
	}
	return o;
}

int audit_actor_decode(const json_t *o, struct audit_actor *ret, struct err *e)
{
	struct audit_actor a = {0};
	const char *kind, *name, *program;
	uint64_t uid, pid;
	int r;

	if ((r = json_get_str(o, "kind", sizeof(a.kind) - 1, &kind, e)) < 0 ||
		(r = json_get_str_or(o, "name", sizeof(a.name) - 1, "", &name, e)) < 0 ||
		(r = json_get_bool_or(o, "terminal", false, &a.terminal, e)) < 0 ||
		(r = json_get_u64_or(o, "uid", UINT32_MAX, 0, &uid, e)) < 0 ||
		(r = json_get_u64_or(o, "pid", INT_MAX, 0, &pid, e)) < 0 ||
		(r = json_get_str_or(o, "program", sizeof(a.program) - 1, "", &program, e)) < 0)
		return r;
	if (strcmp(kind, "human") != 0 && strcmp(kind, "agent") != 0)
		return err_set(e, ERR_PROTOCOL, 0, "\"kind\" of an actor must be human or agent");
	(void)snprintf(a.kind, sizeof(a.kind), "%s", kind);
	(void)snprintf(a.name, sizeof(a.name), "%s", name);
	(void)snprintf(a.program, sizeof(a.program), "%s", program);
	a.uid = (uid_t)uid;
	a.pid = (pid_t)pid;
	*ret = a;
	return 0;
}
