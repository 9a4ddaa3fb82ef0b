/* SPDX-License-Identifier: Apache-2.0 */
/* audit verify and audit export; audit ls is in cmd-audit-ls.c. */
#include "commands.h"

#include "context.h"
#include "output.h"

#include "../base/fd.h"
#include "../base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD_MAX (64u * 1024)
#define COPY_CHUNK (64u * 1024)

static int print_report(const struct audit_report *p, bool json, struct err *e)
{
	bool ok = p->damage == AUDIT_OK;
	int r = 0;

	if (json)
		r = output_json(json_pack("{s:b, s:I, s:s, s:s, s:I, s:I, s:s, s:b}", "ok", ok,
					"records", (json_int_t)p->count, "head", p->head_hash,
					"damage", audit_damage_name(p->damage), "first_bad",
					(json_int_t)p->first_bad, "line", (json_int_t)p->line,
					"text", p->text, "unsealed", p->unsealed),
			e);
	else if (ok)
		output_line("ok: %llu records, head %s%s", (unsigned long long)p->count,
			p->head_hash,
			p->unsealed ? " (the last record is not sealed yet: a crash)" : "");
	if (r < 0 || ok)
		return r;
	if (p->first_bad)
		return err_set(e, ERR_CORRUPT, 0,
			"the audit log is damaged (%s) at record %llu: %s",
			audit_damage_name(p->damage), (unsigned long long)p->first_bad, p->text);
	return err_set(e, ERR_CORRUPT, 0, "the audit log is damaged (%s): %s",
		audit_damage_name(p->damage), p->text);
}

int cmd_audit_verify(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	struct audit_report report;
	int r;

	if ((r = context_open(&c, e)) < 0 || (r = audit_verify(&c.home, c.catalog, &report, e)) < 0)
		return r;
	return print_report(&report, args_on(a, "json"), e);
}

/* Log and head of one moment: both are read under the log's lock, the log only by its size, as it
 * is append-only and stdout may be slow. */
static int snapshot(int audit_dir, int *ret_log, off_t *ret_size, struct buf *head, struct err *e)
{
	cleanup_fd int lock = lock_open(audit_dir, "lock", true);
	struct stat st;

	if (lock < 0)
		return err_errno(e, -lock, "cannot lock the audit log");
	cleanup_fd int log = openat(audit_dir, "log.jsonl", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (log < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "nothing was recorded yet");
	if (log < 0 || fstat(log, &st) < 0)
		return err_errno(e, errno, "cannot read the audit log");
	int r = file_read(audit_dir, "head", head);
	if (r < 0 && r != -ENOENT)
		return err_errno(e, -r, "cannot read the audit log's head");
	*ret_size = st.st_size;
	*ret_log = fd_take(&log);
	return 0;
}

int cmd_audit_export(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_fd int dir = -1, log = -1;
	cleanup_buf struct buf head = {0};
	static char chunk[COPY_CHUNK];
	off_t size = 0;
	int r;

	(void)a;
	buf_init(&head, HEAD_MAX);
	if ((r = context_open(&c, e)) < 0)
		return r;
	dir = dir_open(c.home.dirfd, "audit", true, 0700);
	if (dir < 0)
		return err_errno(e, -dir, "cannot open the audit log");
	if ((r = snapshot(dir, &log, &size, &head, e)) < 0)
		return r;
	for (off_t at = 0; at < size;) {
		size_t want =
			size - at < (off_t)sizeof(chunk) ? (size_t)(size - at) : sizeof(chunk);
		ssize_t n = fd_pread_full(log, chunk, want, at);
		if (n <= 0)
			return err_errno(e, n < 0 ? (int)-n : EIO, "cannot read the audit log");
		if (fwrite(chunk, 1, (size_t)n, stdout) != (size_t)n)
			return err_errno(e, errno, "writing the output");
		at += n;
	}
	while (head.len > 0 && head.data[head.len - 1] == '\n')
		head.len--;
	if (head.len > 0 &&
		(fwrite(head.data, 1, head.len, stdout) != head.len || putchar('\n') == EOF))
		return err_errno(e, errno, "writing the output");
	return 0;
}
