/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include "audit-view.h"
#include "context.h"
#include "output.h"
#include "since.h"

#include "../base/clock.h"
#include "../base/fd.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

struct listing {
	struct audit_view view;
	bool json;
	bool follow;
	bool started; /* what is there already was printed */
	struct err *e;
};

static const char *const headers[] = {
	"SEQ", "TIME", "ACTOR", "ACTION", "SANDBOX", "RESULT", "DETAIL", NULL};

/* A row of its own, for a listing whose widths cannot be known. */
static void print_fixed(const char *const cells[AUDIT_CELLS])
{
	output_line("%-7s %-19s %-24s %-15s %-16s %-11s %s", cells[0], cells[1], cells[2], cells[3],
		*cells[4] ? cells[4] : "-", cells[5], *cells[6] ? cells[6] : "-");
}

static int print_entry(const struct listing *l, const struct audit_entry *x)
{
	char cells[AUDIT_CELLS][AUDIT_CELL_SIZE];
	const char *row[AUDIT_CELLS];

	if (l->json) {
		cleanup_json *o = audit_entry_json(x);
		return output_json_line(o, l->e);
	}
	audit_entry_cells(x, cells);
	for (size_t i = 0; i < AUDIT_CELLS; i++)
		row[i] = cells[i];
	print_fixed(row);
	return 0;
}

static int take_record(const json_t *record, void *ctx)
{
	struct listing *l = ctx;
	ssize_t done = audit_view_add(&l->view, record);

	if (done == -2)
		return err_set(l->e, ERR_IO, ENOMEM, "out of memory");
	if (done < 0 || !l->started)
		return 0;
	int r = print_entry(l, &l->view.entries[done]);
	audit_view_drop(&l->view, (size_t)done);
	return r;
}

static int print_table(struct listing *l)
{
	char cells[AUDIT_CELLS][AUDIT_CELL_SIZE];
	const char *row[AUDIT_CELLS];
	cleanup_table struct table t;

	table_init(&t, headers, 5);
	for (size_t i = 0; i < l->view.len; i++) {
		audit_entry_cells(&l->view.entries[i], cells);
		for (size_t k = 0; k < AUDIT_CELLS; k++)
			row[k] = cells[k];
		bool ok = strcmp(cells[5], "ok") == 0;
		bool cut = strcmp(cells[5], "cut off") == 0 || strcmp(cells[5], "in progress") == 0;
		table_row(&t, ok ? SHADE_NONE : cut ? SHADE_WARN : SHADE_BAD, row);
	}
	return table_print(&t, l->e);
}

static int print_array(struct listing *l)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < l->view.len; i++)
		(void)json_array_append_new(list, audit_entry_json(&l->view.entries[i]));
	return output_json(list, l->e);
}

/* What is there now; a followed listing keeps the actions that have not ended. */
static int print_present(struct listing *l)
{
	int r = 0;

	if (!l->follow)
		return l->json ? print_array(l) : print_table(l);
	if (!l->json)
		print_fixed(headers);
	for (size_t i = 0; r >= 0 && i < l->view.len;) {
		r = print_entry(l, &l->view.entries[i]);
		if (l->view.entries[i].end)
			audit_view_drop(&l->view, i);
		else
			i++;
	}
	l->started = true;
	return r;
}

static int follow(const struct context *c, struct listing *l, int watch, struct err *e)
{
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	int r;

	for (;;) {
		if ((r = output_finish(e)) < 0)
			return r;
		ssize_t n = read(watch, events, sizeof(events));
		if (n < 0 && errno != EINTR)
			return err_errno(e, errno, "waiting for the audit log");
		r = audit_read(&c->home, l->view.last_seq + 1, take_record, l, e);
		if (r < 0)
			return r;
	}
}

static int watch_log(const struct context *c, struct err *e)
{
	char path[PATH_MAX];
	cleanup_fd int fd = inotify_init1(IN_CLOEXEC);

	(void)snprintf(path, sizeof(path), "%s/audit", c->home.path);
	if (fd < 0 || inotify_add_watch(fd, path, IN_MODIFY | IN_CREATE) < 0)
		return err_errno(e, errno, "cannot watch the audit log");
	return fd_take(&fd);
}

int cmd_audit_ls(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	struct listing l = {.json = args_on(a, "json"), .follow = args_on(a, "follow"), .e = e};
	const char *since = args_value(a, "since");
	cleanup_fd int watch = -1;
	int r;

	l.view.sandbox = args_value(a, "sandbox");
	if (since && since_parse(since, clock_wall_ns(), &l.view.since_ns) < 0)
		return err_set(e, ERR_USAGE, 0,
			"--since: \"%.60s\" is neither a time (2026-01-31T12:00:00Z) nor a "
			"duration (1h)",
			since);
	if ((r = context_open(&c, e)) < 0)
		return r;
	/* Before the first look, so that nothing that comes in between is missed. */
	if (l.follow && (watch = watch_log(&c, e)) < 0)
		return watch;
	r = audit_read(&c.home, 1, take_record, &l, e);
	if (r >= 0)
		r = print_present(&l);
	if (r >= 0 && l.follow)
		r = follow(&c, &l, watch, e);
	audit_view_release(&l.view);
	return r;
}
