/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three stages: all that is named is found and opened; the state directory is closed and, for a
 * copy out, this process confined to where it writes; then the supervisor is asked, and what comes
 * from the guest is read.
 */
#include "commands.h"

#include "copy-place.h"
#include "copy-session.h"
#include "copy-tar.h"
#include "output.h"
#include "tree-receive.h"

#include "../base/fd.h"
#include "../base/strv.h"
#include "../base/text.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

struct cp {
	struct copy_place src, dst;
	bool contents;	/* of a source */
	char *name;	/* of a source; "" for contents */
	bool as_folder; /* contents that become a folder of the sandbox */
	struct connection connection;
	json_t *request;
	struct copy_progress progress;
};

static int out_of_memory(struct err *e)
{
	return err_set(e, ERR_IO, ENOMEM, "out of memory");
}

/* A sandbox that is not there is said first, whatever else is wrong with its path. */
static int no_sandbox(const char *text, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	cleanup_str char *name = strndup(text, strcspn(text, "/:"));
	struct err why = {0};

	if (!name || !strchr(text, ':') || !text_is_sandbox_name(name) ||
		context_open(&c, &why) < 0 || sandbox_open(&c, name, &s, &why) >= 0 ||
		why.kind != ERR_NOT_FOUND)
		return err_code(e);
	*e = why;
	return err_code(e);
}

static int parse(const struct args *a, struct cp *cp, struct err *e)
{
	int r;

	copy_progress_init(&cp->progress, args_on(a, "quiet"));
	for (size_t i = 0; i < 2; i++)
		if ((r = copy_place_parse(a->operands[i], i ? &cp->dst : &cp->src, e)) < 0)
			return no_sandbox(a->operands[i], e);
	if ((cp->src.side == COPY_GUEST) == (cp->dst.side == COPY_GUEST))
		return err_set(e, ERR_USAGE, 0,
			"one of SRC and DST is in a sandbox: NAME:PATH or NAME/CONTAINER:PATH");
	if (cp->src.side == COPY_TAR) {
		if (isatty(STDIN_FILENO))
			return err_set(e, ERR_USAGE, 0, "stdin is a terminal, and - is a tar");
		cp->contents = true;
	} else {
		cp->contents = copy_place_is_contents(&cp->src);
	}
	if (cp->dst.side == COPY_TAR && isatty(STDOUT_FILENO))
		return err_set(e, ERR_USAGE, 0, "stdout is a terminal, and - is a tar");
	if (!cp->contents)
		return copy_place_name(&cp->src, &cp->name, e);
	cp->name = strdup("");
	return cp->name ? 0 : out_of_memory(e);
}

/* Everything that the state directory is needed for. */
static int connect_guest(struct cp *cp, struct err *e)
{
	bool in = cp->dst.side == COPY_GUEST;
	const struct copy_place *guest = in ? &cp->dst : &cp->src;
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	int r;

	if ((r = context_open(&c, e)) < 0 || (r = sandbox_open(&c, guest->sandbox, &s, e)) < 0 ||
		(r = connection_open(&s, &cp->connection, e)) < 0)
		return r;
	cp->request = copy_request(&c, in ? "in" : "out", guest->container, guest->path,
		in ? cp->name : "", in && cp->contents && !cp->as_folder, 0);
	return cp->request ? 0 : out_of_memory(e);
}

static int send_files(struct cp *cp, struct copy_io *io, bool *ret_begun, struct err *e)
{
	cleanup_tree_send struct tree_send send = {.dirfd = -1, .file = -1};
	int r = tree_send_open(&send, cp->src.path, e);

	if (r == 0 && cp->contents && !send.is_dir)
		r = err_set(e, ERR_INVALID, ENOTDIR, "%.200s is no folder", cp->src.path);
	if (r == 0)
		r = connect_guest(cp, e);
	if (r < 0)
		return r;
	send.skipped.progress = &cp->progress;
	io->send = &send;
	r = copy_run(&cp->connection, cp->request, io, e);
	io->send = NULL;
	*ret_begun = send.begun;
	return r;
}

/* The contents of a folder go into one that is there. Where there is none they are what the new one
 * holds, so that is asked for second. */
static int copy_in(struct cp *cp, struct copy_io *io, struct err *e)
{
	bool begun = true;
	int r = send_files(cp, io, &begun, e);

	if (r >= 0 || begun || !cp->contents || e->kind != ERR_NOT_FOUND || io->signal)
		return r;
	connection_close(&cp->connection);
	json_decref(cp->request);
	cp->request = NULL;
	cp->as_folder = true;
	return send_files(cp, io, &begun, e);
}

static int copy_in_tar(struct cp *cp, struct copy_io *io, struct err *e)
{
	struct copy_tar tar = {.report = -1};
	cleanup_fd int from = -1;
	int r = connect_guest(cp, e);

	if (r < 0 || (r = copy_tar_read(&tar, &from, e)) < 0)
		return r;
	io->from_fd = from;
	r = copy_run(&cp->connection, cp->request, io, e);
	from = fd_close(from);
	return copy_tar_end(&tar, r, e);
}

static int copy_out(struct cp *cp, struct copy_io *io, struct err *e)
{
	cleanup_tree_receive struct tree_receive receive = {.base = -1};
	struct tree_sink sink = tree_receive_sink;
	int r = connect_guest(cp, e);

	if (r < 0 ||
		(r = tree_receive_open(&receive, cp->dst.path, cp->name, cp->contents, e)) < 0 ||
		(r = tree_receive_confine(&receive, e)) < 0)
		return r;
	receive.skipped.progress = &cp->progress;
	sink.ctx = &receive;
	io->sink = &sink;
	r = copy_run(&cp->connection, cp->request, io, e);
	return r < 0 ? tree_receive_failed(&receive, e) : r;
}

static int copy_out_tar(struct cp *cp, struct copy_io *io, struct err *e)
{
	struct copy_tar tar = {.report = -1};
	int r = connect_guest(cp, e);

	if (r < 0 || (r = copy_tar_write(&tar, cp->contents ? "." : cp->name, &io->to_fd, e)) < 0)
		return r;
	r = tree_receive_confine(NULL, e);
	if (r >= 0)
		r = copy_run(&cp->connection, cp->request, io, e);
	io->to_fd = fd_close(io->to_fd);
	return copy_tar_end(&tar, r, e);
}

static int copy(struct cp *cp, struct copy_io *io, struct err *e)
{
	if (cp->src.side == COPY_HOST)
		return copy_in(cp, io, e);
	if (cp->src.side == COPY_TAR)
		return copy_in_tar(cp, io, e);
	return cp->dst.side == COPY_TAR ? copy_out_tar(cp, io, e) : copy_out(cp, io, e);
}

int cmd_sandbox_cp(const struct args *a, struct err *e)
{
	struct cp cp = {.connection = {.fd = -1}};
	struct copy_io io = COPY_IO_NONE;
	int r = parse(a, &cp, e);

	io.progress = &cp.progress;
	if (r == 0)
		r = copy(&cp, &io, e);
	if (r < 0 && io.signal) {
		output_error(e);
		r = 128 + io.signal;
	}
	connection_close(&cp.connection);
	json_decref(cp.request);
	free(cp.name);
	copy_place_release(&cp.src);
	copy_place_release(&cp.dst);
	return r;
}
