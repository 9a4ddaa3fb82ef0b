/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include "mount-apply.h"
#include "output.h"

#include "../base/text.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int out_of_memory(struct err *e)
{
	return err_set(e, ERR_IO, ENOMEM, "out of memory");
}

/* 1: yes, 0: no. */
static int ask(const struct mount_diff *d, size_t count, const char *box, struct err *e)
{
	char answer[16], host[512];

	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
		(void)err_set(e, ERR_DENIED, 0,
			"apply changes files of the host, and there is no terminal to ask on");
		return err_hint(e, "kosa8 sandbox apply %s %.100s --yes", box, d->guest);
	}
	text_escape(d->host, host, sizeof(host));
	(void)fprintf(stderr, "Write %zu %s to %s? [y/N] ", count,
		count == 1 ? "change" : "changes", host);
	(void)fflush(stderr);
	if (!fgets(answer, sizeof(answer), stdin))
		return 0;
	answer[strcspn(answer, "\n")] = '\0';
	return strcmp(answer, "y") == 0 || strcmp(answer, "yes") == 0 || strcmp(answer, "Y") == 0;
}

/* How many of each kind. */
static json_t *detail(const struct mount_diff *d)
{
	json_int_t counts[CHANGE_REMOVED + 1] = {0};

	for (size_t i = 0; i < d->len; i++)
		if (d->list[i].selected)
			counts[d->list[i].kind]++;
	return json_pack("{s:s, s:s, s:I, s:I, s:I}", "host", d->host, "guest", d->guest, "added",
		counts[CHANGE_ADDED], "changed", counts[CHANGE_CHANGED], "removed",
		counts[CHANGE_REMOVED]);
}

static int recorded(struct context *c, const struct sandbox *s, struct mount_diff *d,
	struct copy_io *io, struct err *e)
{
	cleanup_json *bound = NULL;
	cleanup_json *about = detail(d);
	struct action action = {.event = {.action = "mount.apply",
					.sandbox_id = s->row.id,
					.sandbox = s->row.name,
					.detail = about}};
	int r = about ? sandbox_bind(s, NULL, &bound, e) : out_of_memory(e);

	if (r < 0)
		return r;
	action.event.bound = bound;
	if ((r = action_begin(c, &action, e)) < 0)
		return r;
	r = mount_apply(c, s, d, io, e);
	return action_end(c, &action, r, e);
}

static int apply(const struct args *a, struct context *c, const struct sandbox *s,
	struct copy_io *io, struct err *e)
{
	cleanup_mount_diff struct mount_diff d = {.root = -1, .file = -1};
	bool yes = args_on(a, "yes");
	int r = mount_diff_get(c, s, a->operands[1], &d, io, e);

	if (r < 0 || (r = mount_apply_select(&d, a->operands + 2, a->operands_len - 2, e)) < 0)
		return r;
	copy_unblock_signals();
	size_t count = mount_diff_print(&d, true);
	if (count == 0) {
		output_notice("%s has no changes", d.guest);
		return 0;
	}
	if (!yes && (r = ask(&d, count, s->row.name, e)) < 0)
		return r;
	if (!yes && r == 0)
		return err_set(e, ERR_CANCELLED, 0, "%.200s is as it was", d.host);
	return recorded(c, s, &d, io, e);
}

int cmd_sandbox_apply(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	struct copy_io io = COPY_IO_NONE;
	struct copy_progress progress;
	int r;

	copy_progress_init(&progress, args_on(a, "quiet"));
	io.progress = &progress;
	if ((r = context_open(&c, e)) < 0 || (r = sandbox_open(&c, a->operands[0], &s, e)) < 0)
		return r;
	r = apply(a, &c, &s, &io, e);
	if (r < 0 && io.signal) {
		output_error(e);
		return 128 + io.signal;
	}
	return r;
}
