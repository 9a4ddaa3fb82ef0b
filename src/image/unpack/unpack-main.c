/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kosa8-unpack (unpack.h). Two processes: the worker reads the layers and is as confined as can be;
 * the monitor started it, never reads a layer's byte, and reports for a worker that could not: one
 * that was killed by a limit, by the system call filter, or by a bug that a layer triggered.
 *
 *     monitor                          worker
 *     check descriptors
 *     stages 1, 2
 *     fork  ------------------------>  die with the monitor
 *     stages 4 to 6                    stages 3 to 6
 *     wait                             first byte of a layer
 *                                      report, exit
 *     report if the worker did not
 */
#include "confine.h"
#include "squash.h"
#include "tar.h"
#include "unpack.h"

#include "../../base/clock.h"
#include "../../base/fd.h"
#include "../../base/json.h"
#include "../../base/log.h"
#include "../../base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRESS_INTERVAL_MS 100
#define EXIT_CPU_TIME 3			/* of the worker: the monitor reports */
#define OUTPUT_SLACK_BYTES (4ull << 30) /* of the tables, over the layers' own limit */

/* In force: ours, or what the caller set lower. */
static struct {
	uint64_t seconds, cpu_seconds, memory_bytes, file_bytes;
} in_force;

/* ---- report ---- */

/* One write for a line, so that lines of monitor and worker cannot mix. */
static int report(struct buf *line)
{
	buf_put_u8(line, '\n');
	return buf_failed(line) ? -ENOMEM : fd_write_all(UNPACK_FD_REPORT, line->data, line->len);
}

/* Where memory or the output ends, the limit is not known: here it is. */
static void add_limit(struct err *e)
{
	char what[ERR_WHAT_MAX];

	(void)snprintf(what, sizeof(what), "%s", e->what);
	if (e->kind == ERR_LIMIT && e->errnum == ENOMEM)
		(void)err_set(e, ERR_LIMIT, ENOMEM, "%.300s (it may take %" PRIu64 " MiB)", what,
			in_force.memory_bytes >> 20);
	else if (e->errnum == EFBIG)
		(void)err_set(e, ERR_LIMIT, EFBIG, "%.300s (it may have %" PRIu64 " bytes)", what,
			in_force.file_bytes);
}

static void report_error(struct err *e)
{
	cleanup_json *j = NULL;
	cleanup_buf struct buf b = {0};

	add_limit(e);
	/* Text that was cut inside a character is no longer UTF-8. */
	if (!text_is_utf8(e->what, strlen(e->what)))
		for (char *p = e->what; *p; p++)
			if ((unsigned char)*p >= 0x80)
				*p = '?';
	buf_init(&b, 8192);
	j = json_pack("{s:b, s:{s:s, s:s, s:s}}", "ok", 0, "error", "kind", err_kind_name(e->kind),
		"what", e->what, "hint", e->hint);
	json_put_canonical(&b, j);
	if (report(&b) < 0)
		log_warn("cannot report: %s", e->what);
}

struct progress {
	unsigned layer;
	int64_t last_ms;
	uint64_t bytes;
	uint64_t shown;
};

static void show_progress(struct progress *p)
{
	struct pollfd fd = {.fd = UNPACK_FD_REPORT, .events = POLLOUT};
	cleanup_buf struct buf b = {0};

	p->last_ms = clock_mono_ms();
	p->shown = p->bytes;
	if (poll(&fd, 1, 0) != 1 || !(fd.revents & POLLOUT))
		return;
	buf_init(&b, 256);
	buf_putf(&b, "{\"progress\":{\"bytes\":%" PRIu64 ",\"layer\":%u}}", p->bytes, p->layer);
	(void)report(&b);
}

static void on_progress(void *ctx, uint64_t bytes)
{
	struct progress *p = ctx;

	p->bytes = bytes;
	if (clock_mono_ms() - p->last_ms >= PROGRESS_INTERVAL_MS)
		show_progress(p);
}

/* ---- the worker's work ---- */

struct work {
	struct tree tree;
	struct squash *squash;
	struct tar_totals totals;
	struct progress progress;
	json_t *diff_ids;
};

static void work_release(struct work *w)
{
	squash_free(w->squash);
	tree_release(&w->tree);
	json_decref(w->diff_ids);
}

static int apply_layer(struct work *w, unsigned layer, struct err *e)
{
	const struct tar_options options = {
		.sink = squash_sink(w->squash),
		.progress = on_progress,
		.progress_ctx = &w->progress,
	};
	char digest[SHA256_HEX_SIZE], id[SHA256_HEX_SIZE + 8];
	int r;

	w->progress.layer = layer;
	r = tar_apply((int)(UNPACK_FD_LAYERS + layer), &w->tree, &options, &w->totals, digest, e);
	if (r < 0)
		return r;
	show_progress(&w->progress);
	(void)snprintf(id, sizeof(id), "sha256:%s", digest);
	if (json_array_append_new(w->diff_ids, json_string(id)) < 0)
		return err_set(e, ERR_LIMIT, ENOMEM, "out of memory");
	return 0;
}

static int report_result(struct work *w, uint64_t entries, uint64_t size, struct err *e)
{
	cleanup_json *j = json_pack("{s:b, s:I, s:I, s:I, s:O}", "ok", 1, "entries",
		(json_int_t)entries, "tar_bytes", (json_int_t)w->totals.tar_bytes, "size",
		(json_int_t)size, "layer_diff_ids", w->diff_ids);
	cleanup_buf struct buf b = {0};

	buf_init(&b, 65536);
	json_put_canonical(&b, j);
	int r = report(&b);
	return r < 0 ? err_errno(e, -r, "cannot report the result") : 0;
}

static int unpack(unsigned layers, struct err *e)
{
	static const struct unpack_limits limits = UNPACK_LIMITS;
	__attribute__((cleanup(work_release))) struct work w = {.diff_ids = json_array()};
	uint64_t entries, size;
	int r = w.diff_ids ? 0 : err_set(e, ERR_LIMIT, ENOMEM, "out of memory");

	if (r == 0)
		r = tree_init(&w.tree, &limits, e);
	if (r == 0)
		r = squash_new(UNPACK_FD_OUTPUT, &w.squash, e);
	for (unsigned i = 0; r == 0 && i < layers; i++)
		r = apply_layer(&w, i, e);
	if (r == 0)
		r = squash_finish(w.squash, &w.tree, &entries, &size, e);
	return r < 0 ? r : report_result(&w, entries, size, e);
}

/* Everything that libraries read from files at their first use. */
static void warm_up(void)
{
	char hex[SHA256_HEX_SIZE];

	sha256_hex_of("", 0, hex);
}

static int confine_worker(struct err *e)
{
	const struct confine_limits l = {
		.cpu_seconds = in_force.cpu_seconds,
		.memory_bytes = in_force.memory_bytes,
		.file_bytes = in_force.file_bytes,
	};
	int r = confine_limits(&l, e);

	if (r == 0)
		r = confine_landlock(CONFINE_WORKER, e);
	if (r == 0)
		log_info("this kernel has no Landlock");
	if (r >= 0)
		r = confine_capabilities(e);
	return r < 0 ? r : confine_syscalls(CONFINE_WORKER, 0, e);
}

/* A handler, because the first process of a process namespace gets no signal without one. */
static void on_cpu_time(int sig)
{
	(void)sig;
	_exit(EXIT_CPU_TIME);
}

static _Noreturn void run_worker(unsigned layers)
{
	struct err e = {0};
	int r;

	(void)signal(SIGXCPU, on_cpu_time);
	warm_up();
	r = confine_worker(&e);
	if (r == 0)
		r = unpack(layers, &e);
	if (r < 0) {
		(void)!ftruncate(UNPACK_FD_OUTPUT, 0);
		report_error(&e);
	}
	_exit(r < 0 ? 1 : 0);
}

/* ---- the monitor ---- */

static uint64_t lower(uint64_t ours, int resource)
{
	struct rlimit l;

	if (getrlimit((__rlimit_resource_t)resource, &l) < 0 || l.rlim_max == RLIM_INFINITY)
		return ours;
	return l.rlim_max < ours ? l.rlim_max : ours;
}

static void set_in_force(void)
{
	const struct unpack_limits limits = UNPACK_LIMITS;
	const char *text = getenv(UNPACK_SECONDS_VARIABLE);

	in_force.seconds = UNPACK_SECONDS;
	if (text && text_parse_u64(text, 1, UNPACK_SECONDS, &in_force.seconds) < 0)
		in_force.seconds = UNPACK_SECONDS;
	in_force.cpu_seconds = lower(UNPACK_CPU_SECONDS, RLIMIT_CPU);
	in_force.memory_bytes = lower(UNPACK_MEMORY_BYTES, RLIMIT_DATA);
	in_force.file_bytes = lower(limits.total_bytes + OUTPUT_SLACK_BYTES, RLIMIT_FSIZE);
}

static pid_t worker_pid;
static volatile sig_atomic_t late;

/* The worker, which may be doing nothing, or wait for a file system that does not answer. */
static void on_time(int sig)
{
	(void)sig;
	late = 1;
	(void)kill(worker_pid, SIGKILL);
}

static void limit_time(pid_t worker)
{
	worker_pid = worker;
	(void)signal(SIGALRM, on_time);
	(void)alarm((unsigned)in_force.seconds);
}

/* alive: nothing is ever written to it; it ends when the monitor does. Reading it once after
 * asking for the signal finds a monitor that died before. */
static void die_with_monitor(const int alive[2])
{
	struct pollfd p = {.fd = alive[0], .events = POLLIN};

	(void)close(alive[1]);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (poll(&p, 1, 0) != 0)
		_exit(1);
	(void)close(alive[0]);
}

static int start_worker(unsigned layers, pid_t *ret, struct err *e)
{
	int alive[2];

	if (pipe2(alive, O_CLOEXEC) < 0)
		return err_errno(e, errno, "cannot make a pipe");
	pid_t pid = fork();
	if (pid == 0) {
		die_with_monitor(alive);
		run_worker(layers);
	}
	int saved = errno;
	(void)close(alive[0]);
	if (pid < 0)
		return err_errno(e, saved, "cannot start the worker");
	*ret = pid; /* alive[1] stays open for as long as this process lives */
	return 0;
}

static int confine_monitor(unsigned layers, pid_t worker, struct err *e)
{
	int r;

	for (unsigned i = 0; i < layers; i++)
		(void)close((int)(UNPACK_FD_LAYERS + i));
	r = confine_landlock(CONFINE_MONITOR, e);
	if (r >= 0)
		r = confine_capabilities(e);
	return r < 0 ? r : confine_syscalls(CONFINE_MONITOR, worker, e);
}

static void explain_signal(int sig, struct err *e)
{
	if (sig == SIGSYS)
		(void)err_set(e, ERR_INTERNAL, 0,
			"the unpacking worker was stopped by its system call filter");
	else if (sig == SIGKILL)
		(void)err_set(e, ERR_CANCELLED, 0,
			"the unpacking worker was killed, by the user or for lack of memory");
	else
		(void)err_set(e, ERR_INTERNAL, 0, "the unpacking worker died of signal %d", sig);
}

static int wait_worker(pid_t pid, struct err *e)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_errno(e, errno, "cannot wait for the worker");
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_CPU_TIME)
		return err_set(e, ERR_LIMIT, 0,
			"unpacking took more than %" PRIu64 " s of the processor's time",
			in_force.cpu_seconds);
	if (WIFEXITED(status))
		return WEXITSTATUS(status); /* it has reported */
	if (late)
		return err_set(e, ERR_LIMIT, 0, "unpacking took more than %" PRIu64 " s",
			in_force.seconds);
	explain_signal(WTERMSIG(status), e);
	return err_code(e);
}

static int check_file(int fd, const char *what, int mode, struct err *e)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fstat(fd, &st) < 0)
		return err_errno(e, errno, "%s (descriptor %d)", what, fd);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_USAGE, 0, "%s (descriptor %d) is no regular file", what, fd);
	if ((flags & O_ACCMODE) != O_RDWR && (flags & O_ACCMODE) != mode)
		return err_set(
			e, ERR_USAGE, 0, "%s (descriptor %d) is opened the wrong way", what, fd);
	if (mode == O_RDWR && (st.st_size > 0 || (flags & O_APPEND)))
		return err_set(
			e, ERR_USAGE, 0, "%s (descriptor %d) is not empty or appends", what, fd);
	return 0;
}

static int check_descriptors(unsigned layers, struct err *e)
{
	int r = check_file(UNPACK_FD_OUTPUT, "the output", O_RDWR, e);

	for (unsigned i = 0; r == 0 && i < layers; i++)
		r = check_file((int)(UNPACK_FD_LAYERS + i), "a layer", O_RDONLY, e);
	return r;
}

static int run_confined(unsigned layers, struct err *e)
{
	pid_t pid = -1;
	int r = confine_start(UNPACK_FD_LAYERS + layers, e);

	if (r < 0)
		return r;
	const char *missing = confine_namespaces();
	if (missing)
		log_info("this host allows no own %s namespace", missing);
	set_in_force();
	r = start_worker(layers, &pid, e);
	if (r == 0) {
		limit_time(pid);
		r = confine_monitor(layers, pid, e);
	}
	return r < 0 ? r : wait_worker(pid, e);
}

/* Only an output that was found to be ours is emptied after a failure. */
static int run(unsigned layers, struct err *e)
{
	int r = check_descriptors(layers, e);

	if (r < 0)
		return r;
	r = run_confined(layers, e);
	if (r < 0)
		(void)!ftruncate(UNPACK_FD_OUTPUT, 0);
	return r;
}

int main(int argc, char **argv)
{
	struct err e = {0};
	uint64_t layers;
	int r;

	log_init("kosa8-unpack", NULL);
	if (argc != 2 || text_parse_u64(argv[1], 0, UNPACK_LAYERS_MAX, &layers) < 0) {
		(void)fprintf(stderr, "usage: kosa8-unpack N, started by kosa8-image\n");
		return 2;
	}
	r = run((unsigned)layers, &e);
	if (r < 0)
		report_error(&e);
	_exit(r == 0 ? 0 : 1); /* confined: exit handlers of libraries are not ours to run */
}
