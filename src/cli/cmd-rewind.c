/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include "connect.h"
#include "output.h"
#include "start.h"

#include "../base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* 1: yes, 0: no. */
static int ask(const struct sandbox *s, const struct checkpoint_row *p, struct err *e)
{
	char created[OUTPUT_TIME_SIZE], label[512], answer[16];

	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
		(void)err_set(e, ERR_DENIED, 0,
			"rewind throws away what %s did since, and there is no terminal to ask on",
			s->row.name);
		return err_hint(e, "kosa8 rewind %s --to %s --yes", s->row.name, p->id);
	}
	output_time(p->created_ns, created);
	text_escape(p->label ? p->label : p->id, label, sizeof(label));
	(void)fprintf(stderr, "Rewind %s to %s of %s? What came after is lost. [y/N] ", s->row.name,
		label, created);
	(void)fflush(stderr);
	if (!fgets(answer, sizeof(answer), stdin))
		return 0;
	answer[strcspn(answer, "\n")] = '\0';
	return strcmp(answer, "y") == 0 || strcmp(answer, "yes") == 0 || strcmp(answer, "Y") == 0;
}

static int rewind_live(
	const struct context *c, const struct sandbox *s, const char *id, struct err *e)
{
	cleanup_json *result = NULL;
	json_t *request = context_request(c, "rewind");

	if (!request || json_object_set_new(request, "checkpoint", json_string(id)) < 0) {
		json_decref(request);
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	}
	return supervisor_ask(s, request, -1, &result, e);
}

static int rewind_to(struct context *c, const struct sandbox *s, const struct checkpoint_row *p,
	bool yes, struct err *e)
{
	int r = yes ? 1 : ask(s, p, e);

	if (r < 0)
		return r;
	if (r == 0)
		return err_set(e, ERR_CANCELLED, 0, "%s is as it was", s->row.name);
	if (s->state == LIVE_STOPPED || s->state == LIVE_CRASHED)
		r = sandbox_start(c, s, p, e);
	else
		r = rewind_live(c, s, p->id, e);
	if (r >= 0)
		output_notice("%s is back at %s%s%s", s->row.name, p->label ? p->label : "",
			p->label ? ", " : "", p->id);
	return r;
}

int cmd_rewind(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	struct checkpoint_row p = {0};
	int r;

	if ((r = context_open(&c, e)) < 0 || (r = sandbox_open(&c, a->operands[0], &s, e)) < 0 ||
		(r = catalog_checkpoint_find(c.catalog, s.row.id, args_value(a, "to"), &p, e)) < 0)
		return r;
	r = rewind_to(&c, &s, &p, args_on(a, "yes"), e);
	checkpoint_row_release(&p);
	return r;
}
