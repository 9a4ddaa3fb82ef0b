/* SPDX-License-Identifier: Apache-2.0 */
#include "copy-tar.h"

#include "copy-session.h"

#include "../base/fd.h"
#include "../base/install.h"
#include "../base/json.h"
#include "../base/spawn.h"
#include "../proto/client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <unistd.h>

#define REPORT_MAX 65536

static int start(struct copy_tar *t, char *const *argv, int in, int out, struct err *e)
{
	int report[2];

	if (pipe2(report, O_CLOEXEC) < 0)
		return err_errno(e, errno, "cannot start kosa8-tar");
	struct spawn s = {.argv = argv,
		.fds = {in, out, STDERR_FILENO, report[1]},
		.fds_len = 4,
		.die_with_parent = true};
	int r = spawn_start(&s, &t->pid, NULL, e);
	(void)fd_close(report[1]);
	if (r < 0) {
		t->pid = 0;
		(void)fd_close(report[0]);
		return r;
	}
	t->report = report[0];
	return 0;
}

int copy_tar_read(struct copy_tar *t, int *ret, struct err *e)
{
	char program[PATH_MAX];
	char *argv[] = {program, (char[]){"--to-tree"}, NULL};
	int tree[2], r = install_program("kosa8-tar", program, sizeof(program), e);

	if (r < 0)
		return r;
	if (pipe2(tree, O_CLOEXEC) < 0)
		return err_errno(e, errno, "cannot start kosa8-tar");
	r = start(t, argv, STDIN_FILENO, tree[1], e);
	(void)fd_close(tree[1]);
	if (r < 0)
		(void)fd_close(tree[0]);
	else
		*ret = tree[0];
	return r;
}

int copy_tar_write(struct copy_tar *t, const char *name, int *ret, struct err *e)
{
	char program[PATH_MAX];
	char *argv[] = {program, (char[]){"--from-tree"}, (char *)name, NULL};
	int tree[2], r = install_program("kosa8-tar", program, sizeof(program), e);

	if (r < 0)
		return r;
	if (pipe2(tree, O_CLOEXEC) < 0)
		return err_errno(e, errno, "cannot start kosa8-tar");
	r = fd_set_nonblock(tree[1], true);
	r = r < 0 ? err_errno(e, -r, "cannot start kosa8-tar")
		  : start(t, argv, tree[0], STDOUT_FILENO, e);
	(void)fd_close(tree[0]);
	if (r < 0)
		(void)fd_close(tree[1]);
	else
		*ret = tree[1];
	return r;
}

/* What it says it failed of; false: nothing. */
static bool read_report(int fd, struct err *ret)
{
	cleanup_json *j = NULL;
	cleanup_buf struct buf b = {0};
	struct err ignored;

	buf_init(&b, REPORT_MAX);
	if (fd_read_all(fd, &b) < 0 || b.len == 0 ||
		json_parse_object(b.data, b.len, "kosa8-tar's report", &j, &ignored) < 0)
		return false;
	client_error_decode(j, ret);
	return true;
}

int copy_tar_end(struct copy_tar *t, int r, struct err *e)
{
	struct err own = {0};

	if (t->pid == 0)
		return r;
	/* A broken pipe is its own failure, which it is about to report. */
	bool broken = r < 0 && e->errnum == EPIPE;
	if (r < 0 && !broken)
		(void)kill(t->pid, SIGKILL);
	else
		copy_unblock_signals();
	bool said = read_report(t->report, &own);
	int status = spawn_wait(t->pid);
	t->report = fd_close(t->report);
	t->pid = 0;
	if (said && own.errnum == EPIPE && own.kind == ERR_CANCELLED)
		return r < 0 && !broken ? r : 128 + SIGPIPE;
	if (said && (r >= 0 || broken)) {
		*e = own;
		return err_code(e);
	}
	if (r >= 0 && status != 0)
		return err_set(e, ERR_INTERNAL, 0, "kosa8-tar ended unexpectedly (%d)", status);
	return r;
}
