/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of checks, each ok, warn (kosa8 works, with less) or fail (something will not work), with
 * what to do about it. The engine's part (QEMU, guest assets, accelerator, confinement) comes from
 * kosa8-supervisor; here is what concerns the programs, the state folder and the sandboxes.
 */
#include "commands.h"

#include "context.h"
#include "engine.h"
#include "output.h"

#include "../base/file.h"
#include "../base/install.h"
#include "../base/text.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define FREE_WARN_BYTES UINT64_C(5000000000)
#define FREE_FAIL_BYTES UINT64_C(500000000)

static void add(json_t *checks, const char *name, const char *status, const char *hint,
	const char *fmt, ...) format_printf(5, 6);

static void add(json_t *checks, const char *name, const char *status, const char *hint,
	const char *fmt, ...)
{
	char text[512], safe[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* JSON holds UTF-8 only, and a path may be anything. */
	text_escape(text, safe, sizeof(safe));
	(void)json_array_append_new(checks, json_pack("{s:s, s:s, s:s, s:s}", "name", name,
						    "status", status, "text", safe, "hint", hint));
}

static void check_programs(json_t *checks)
{
	static const char *const programs[] = {"kosa8-supervisor", "kosa8-image", "kosa8-unpack"};
	char path[PATH_MAX];
	struct err e;

	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		int r = install_program(programs[i], path, sizeof(path), &e);
		if (r < 0)
			add(checks, programs[i], "fail", e.hint, "%s", e.what);
		else if (access(path, X_OK) < 0)
			add(checks, programs[i], "fail", "make install", "%s: %s", path,
				strerror(errno));
		else
			add(checks, programs[i], "ok", "", "%s", path);
	}
}

static void check_space(json_t *checks, const struct context *c)
{
	char size[TEXT_SIZE_MAX];
	uint64_t bytes = 0;
	int r = file_free_bytes(c->home.dirfd, &bytes);

	if (r < 0) {
		add(checks, "free space", "warn", "", "cannot be told: %s", strerror(-r));
		return;
	}
	text_size(bytes, size);
	add(checks, "free space",
		bytes < FREE_FAIL_BYTES	  ? "fail"
		: bytes < FREE_WARN_BYTES ? "warn"
					  : "ok",
		bytes < FREE_WARN_BYTES ? "free some, or set KOSA8_HOME to a bigger disk" : "",
		"%s free for %s", size, c->home.path);
}

static void check_stale(json_t *checks, const struct context *c)
{
	struct sandbox_rows rows = {0};
	struct err e;
	size_t crashed = 0, total = 0;

	if (catalog_sandbox_list(c->catalog, &rows, &e) < 0) {
		add(checks, "sandboxes", "fail", e.hint, "%s", e.what);
		return;
	}
	total = rows.len;
	for (size_t i = 0; i < rows.len; i++) {
		cleanup_sandbox struct sandbox s = {.dirfd = -1};
		if (sandbox_from_row(c, &rows.rows[i], &s, &e) < 0)
			continue;
		crashed += s.state == LIVE_CRASHED || s.dirfd < 0;
	}
	sandbox_rows_release(&rows);
	add(checks, "sandboxes", crashed ? "warn" : "ok",
		crashed ? "kosa8 sandbox ls; then kosa8 sandbox start or rm" : "",
		"%zu, of these %zu crashed", total, crashed);
}

static void check_state(json_t *checks)
{
	cleanup_context struct context c = {0};
	struct home home = {.dirfd = -1};
	struct err e;

	/* Looking changes nothing: what is not there yet is not made. */
	if (home_open(false, &home, &e) < 0) {
		bool fresh = e.kind == ERR_NOT_FOUND && e.errnum == ENOENT;
		if (fresh)
			add(checks, "state folder", "ok", "", "%s yet: the first command makes it",
				e.what);
		if (fresh)
			return;
		add(checks, "state folder", "fail", *e.hint ? e.hint : "set KOSA8_HOME", "%s",
			e.what);
		return;
	}
	add(checks, "state folder", "ok", "", "%s", home.path);
	home_release(&home);
	if (context_open(&c, &e) < 0) {
		add(checks, "catalog", "fail", e.hint, "%s", e.what);
		return;
	}
	add(checks, "catalog", "ok", "", "can be read and written");
	context_sweep(&c);
	check_space(checks, &c);
	check_stale(checks, &c);
}

static enum shade shade_of(const char *status)
{
	if (strcmp(status, "ok") == 0)
		return SHADE_GOOD;
	return strcmp(status, "warn") == 0 ? SHADE_WARN : SHADE_BAD;
}

static const char *text_of(const json_t *check, const char *key)
{
	const char *s = json_string_value(json_object_get(check, key));

	return s ? s : "";
}

static int print(json_t *checks, bool json, struct err *e)
{
	static const char *const headers[] = {"CHECK", "STATUS", "DETAIL", "TRY", NULL};
	cleanup_table struct table t;
	bool failed = false;
	json_t *check;
	size_t i;
	int r;

	table_init(&t, headers, 1);
	json_array_foreach (checks, i, check) {
		const char *status = text_of(check, "status");
		const char *const cells[] = {text_of(check, "name"), status, text_of(check, "text"),
			text_of(check, "hint")};
		failed = failed || shade_of(status) == SHADE_BAD;
		table_row(&t, shade_of(status), cells);
	}
	r = json ? output_json(json_pack("{s:b, s:O}", "ok", !failed, "checks", checks), e)
		 : table_print(&t, e);
	return r < 0 ? r : failed;
}

int cmd_doctor(const struct args *a, struct err *e)
{
	cleanup_json *checks = json_array(), *engine = NULL;
	struct err engine_error;

	check_programs(checks);
	if (engine_ask(&engine, &engine_error) >= 0)
		(void)json_array_extend(checks, json_object_get(engine, "checks"));
	else
		add(checks, "engine", "fail", engine_error.hint, "%s", engine_error.what);
	check_state(checks);
	return print(checks, args_on(a, "json"), e);
}
