/* SPDX-License-Identifier: Apache-2.0 */
#include "convert.h"

#include "manifest.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/install.h"
#include "../base/spawn.h"
#include "../proto/client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The worker reports at least now and then while it works; after this long it is stuck. */
#define SILENCE_MS (5 * 60 * 1000)
#define REPORT_LINE_MAX (64u * 1024)
#define FIRST_LAYER_FD 4

void converted_release(struct converted *c)
{
	json_decref(c->diff_ids);
	c->diff_ids = NULL;
}

struct report {
	struct output *output;
	struct output_pace pace;
	uint64_t layer, bytes; /* of the last progress */
	struct buf pending;    /* a line that has not ended yet */
	json_t *result;	       /* the last line */
};

static void report_release(struct report *r)
{
	buf_release(&r->pending);
	json_decref(r->result);
}

static int handle_line(struct report *r, const void *line, size_t len, struct err *e)
{
	cleanup_json *o = NULL;
	struct err ignored;
	json_t *progress;
	uint64_t layer, bytes;
	int x;

	if (r->result)
		return err_set(e, ERR_PROTOCOL, 0, "kosa8-unpack reports after its result");
	if ((x = json_parse_object(line, len, "kosa8-unpack's report", &o, e)) < 0)
		return x;
	if (json_object_get(o, "ok")) {
		r->result = json_incref(o);
		output_convert(r->output, &r->pace, r->layer, r->bytes, true);
		return 0;
	}
	if (json_get_object(o, "progress", &progress, &ignored) == 0 &&
		json_get_u64(progress, "layer", MANIFEST_LAYERS_MAX, &layer, &ignored) == 0 &&
		json_get_u64(progress, "bytes", INT64_MAX, &bytes, &ignored) == 0) {
		if (layer != r->layer) /* how far the last one came may not have been told yet */
			output_convert(r->output, &r->pace, r->layer, r->bytes, true);
		r->layer = layer;
		r->bytes = bytes;
		output_convert(r->output, &r->pace, layer, bytes, false);
	}
	return 0;
}

static int handle_lines(struct report *r, struct err *e)
{
	unsigned char *end;

	if (buf_failed(&r->pending))
		return err_set(e, ERR_PROTOCOL, 0, "kosa8-unpack reports lines without end");
	while ((end = memchr(r->pending.data, '\n', r->pending.len))) {
		size_t len = (size_t)(end - r->pending.data);
		int x = handle_line(r, r->pending.data, len, e);
		if (x < 0)
			return x;
		buf_consume(&r->pending, len + 1);
	}
	return 0;
}

/* Reads the report until its end. */
static int follow(struct report *r, int fd, struct err *e)
{
	char chunk[4096];

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int n = poll(&p, 1, SILENCE_MS);
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			return err_set(e, ERR_TIMEOUT, 0, "unpacking the layers does not go on");
		ssize_t got = n < 0 ? -1 : read(fd, chunk, sizeof(chunk));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_errno(e, errno, "reading kosa8-unpack's report");
		if (got == 0)
			return 0;
		buf_put(&r->pending, chunk, (size_t)got);
		int x = handle_lines(r, e);
		if (x < 0)
			return x;
		if (output_failed(r->output))
			return err_set(e, ERR_CANCELLED, 0, "nobody waits for the result");
	}
}

/* Starts kosa8-unpack; *ret_report is the end of its report to read from. */
static int start(
	const int *layers, size_t n, int out, pid_t *ret_pid, int *ret_report, struct err *e)
{
	char path[PATH_MAX], count[16];
	int r, report[2];

	if (n > SPAWN_FDS_MAX - FIRST_LAYER_FD)
		return err_set(e, ERR_LIMIT, 0, "the image has more than %d layers",
			SPAWN_FDS_MAX - FIRST_LAYER_FD);
	if ((r = install_program("kosa8-unpack", path, sizeof(path), e)) < 0)
		return r;
	if (pipe2(report, O_CLOEXEC) < 0)
		return err_errno(e, errno, "cannot start kosa8-unpack");
	cleanup_fd int reader = report[0];
	cleanup_fd int writer = report[1];
	(void)snprintf(count, sizeof(count), "%zu", n);
	struct spawn s = {.argv = (char *const[]){path, count, NULL},
		.fds = {-1, writer, STDERR_FILENO, out},
		.fds_len = FIRST_LAYER_FD + n,
		.die_with_parent = true};
	for (size_t i = 0; i < n; i++)
		s.fds[FIRST_LAYER_FD + i] = layers[i];
	if ((r = spawn_start(&s, ret_pid, NULL, e)) < 0)
		return r;
	*ret_report = fd_take(&reader);
	return 0;
}

static int read_result(const struct report *r, int code, const struct images *images, size_t n,
	struct converted *ret, struct err *e)
{
	json_t *error, *diff_ids;
	bool ok;
	int x;

	if (!r->result)
		return err_set(e, ERR_INTERNAL, 0,
			"kosa8-unpack ended without a result (exit code %d)", code);
	if ((x = json_get_bool_or(r->result, "ok", false, &ok, e)) < 0)
		return x;
	if (!ok) {
		if ((x = json_get_object(r->result, "error", &error, e)) < 0)
			return x;
		client_error_decode(error, e);
		if (e->kind == ERR_NO_SPACE)
			return images_write_error(images, ENOSPC, "the unpacked image", e);
		return err_code(e);
	}
	if (code != 0)
		return err_set(
			e, ERR_INTERNAL, 0, "kosa8-unpack failed after its result (%d)", code);
	if ((x = json_get_array(r->result, "layer_diff_ids", MANIFEST_LAYERS_MAX, &diff_ids, e)) <
		0)
		return err_wrap(e, "kosa8-unpack's report");
	if (json_array_size(diff_ids) != n)
		return err_set(e, ERR_INTERNAL, 0, "kosa8-unpack reports %zu layers of %zu",
			json_array_size(diff_ids), n);
	ret->diff_ids = json_incref(diff_ids);
	return 0;
}

static int run(const struct workdir *w, const int *layers, size_t n, int out, struct converted *ret,
	struct err *e)
{
	struct report report = {.output = w->images->output};
	cleanup_fd int reader = -1;
	struct stat st;
	pid_t pid;
	int r;

	if ((r = start(layers, n, out, &pid, &reader, e)) < 0)
		return r;
	buf_init(&report.pending, REPORT_LINE_MAX);
	r = follow(&report, reader, e);
	if (r < 0)
		(void)kill(pid, SIGKILL);
	int code = spawn_wait(pid);
	if (r == 0)
		r = read_result(&report, code, w->images, n, ret, e);
	report_release(&report);
	if (r < 0)
		return r;
	if (fstat(out, &st) < 0)
		return err_errno(e, errno, "the image");
	ret->size = (uint64_t)st.st_size;
	return 0;
}

int convert_check(struct err *e)
{
	char path[PATH_MAX];

	return install_program("kosa8-unpack", path, sizeof(path), e);
}

/* Where the fault is found only the fault is known. */
static int add_hint(enum convert_from from, struct err *e)
{
	static const char *const corrupt[] = {
		[CONVERT_PULL] =
			"pull the image again; if that fails too, its publisher must mend it",
		[CONVERT_LOAD] = "get the file again, or save the image again where it is from",
		[CONVERT_IMPORT] = "get the file again, or make it again",
	};
	static const char *const invalid[] = {
		[CONVERT_PULL] = "ask the image's publisher, or build it with another tool",
		[CONVERT_LOAD] = "ask who made the image, or build it with another tool",
		[CONVERT_IMPORT] = "make the file with another tool",
	};
	static const char *const limit[] = {
		[CONVERT_PULL] = "use a smaller image, or squash its layers",
		[CONVERT_LOAD] = "use a smaller image, or squash its layers",
		[CONVERT_IMPORT] = "use a smaller file system",
	};
	_Static_assert(sizeof(corrupt) / sizeof(*corrupt) == CONVERT_FROM_COUNT, "one for each");

	if (e->hint[0])
		return err_code(e);
	if (e->kind == ERR_CORRUPT)
		return err_hint(e, "%s", corrupt[from]);
	if (e->kind == ERR_INVALID || e->kind == ERR_UNSUPPORTED)
		return err_hint(e, "%s", invalid[from]);
	return e->kind == ERR_LIMIT ? err_hint(e, "%s", limit[from]) : err_code(e);
}

int convert_layers(const struct workdir *w, enum convert_from from, const int *layers, size_t n,
	struct converted *ret, struct err *e)
{
	struct converted made = {0};

	if (unlinkat(w->fd, CONVERT_FILE, 0) < 0 && errno != ENOENT)
		return err_errno(e, errno, "cannot remove an unfinished image");
	cleanup_fd int out =
		openat(w->fd, CONVERT_FILE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return images_write_error(w->images, errno, "the image", e);
	int r = run(w, layers, n, out, &made, e);
	if (r < 0) {
		converted_release(&made);
		(void)unlinkat(w->fd, CONVERT_FILE, 0);
		return add_hint(from, e);
	}
	*ret = made;
	return 0;
}
