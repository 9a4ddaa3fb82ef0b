/* SPDX-License-Identifier: Apache-2.0 */
#include "image-worker.h"

#include "output.h"

#include "../base/fd.h"
#include "../base/install.h"
#include "../base/spawn.h"
#include "../base/strv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_MAX_BYTES (9u * 1024 * 1024) /* the last line holds the image's configuration */
#define READ_CHUNK (64u * 1024)
#define TICK_MS 250

/* Signals belong to the process, and so does what one of them ended. */
static int interrupted_by;

static int out_of_memory(struct err *e)
{
	return err_set(e, ERR_IO, ENOMEM, "out of memory");
}

/* What is ignored stays so (nohup, background jobs). */
static int watch_signals(struct image_worker *w, struct err *e)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	sigset_t set;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct sigaction old;
		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			(void)sigaddset(&set, signals[i]);
	}
	w->masked = sigprocmask(SIG_BLOCK, &set, &w->mask) == 0;
	w->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return w->signal_fd < 0 ? err_errno(e, errno, "cannot watch for signals") : 0;
}

static bool interrupted(const struct image_worker *w)
{
	struct signalfd_siginfo info;

	if (read(w->signal_fd, &info, sizeof(info)) == sizeof(info))
		interrupted_by = (int)info.ssi_signo;
	return interrupted_by != 0;
}

static int cancelled(const char *verb, struct err *e)
{
	return err_set(e, ERR_CANCELLED, 0, "%s: interrupted%s", verb,
		strcmp(verb, "pull") == 0 ? "; the next pull continues with what has arrived"
					  : "; nothing was changed");
}

int image_worker_status(int r, const struct err *e)
{
	if (!interrupted_by || e->kind != ERR_CANCELLED)
		return r;
	output_error(e);
	return 128 + interrupted_by;
}

static int worker_argv(
	const struct context *c, const struct image_work *work, char ***ret, struct err *e)
{
	char program[PATH_MAX];
	cleanup_strv char **argv = strv_new();
	cleanup_fd int images = home_images_dir(&c->home, e); /* made when missing */
	int r = images < 0 ? images : install_program("kosa8-image", program, sizeof(program), e);

	if (r < 0)
		return r;
	if (!argv || strv_add(&argv, program) < 0 || strv_add(&argv, work->verb) < 0 ||
		strv_add(&argv, "--images-dir") < 0 ||
		strv_addf(&argv, "%s/images", c->home.path) < 0 ||
		(work->hold && strv_add(&argv, "--hold") < 0))
		return out_of_memory(e);
	for (char *const *arg = work->args; *arg; arg++)
		if (strv_add(&argv, *arg) < 0)
			return out_of_memory(e);
	*ret = strv_take(&argv);
	return 0;
}

static int worker_start(
	struct image_worker *w, char *const *argv, int output, int *ret_in, struct err *e)
{
	int pipefd[2];

	if (pipe2(pipefd, O_CLOEXEC) < 0)
		return err_errno(e, errno, "cannot start kosa8-image");
	struct spawn s = {.argv = argv,
		.fds = {STDIN_FILENO, pipefd[1], STDERR_FILENO, output},
		.fds_len = output < 0 ? 3 : 4,
		.die_with_parent = true};
	int r = spawn_start(&s, &w->pid, NULL, e);
	(void)fd_close(pipefd[1]);
	if (r < 0) {
		w->pid = 0;
		(void)fd_close(pipefd[0]);
		return r;
	}
	*ret_in = pipefd[0];
	return 0;
}

/* The lines of b: 1 when the last one came. */
static int take_lines(
	struct buf *b, size_t *scanned, struct progress *p, struct image_gots *ret, struct err *e)
{
	char *newline;

	while ((newline = memchr(b->data + *scanned, '\n', b->len - *scanned))) {
		size_t line = (size_t)(newline - (char *)b->data);
		int r = image_worker_line((char *)b->data, line, p, ret, e);
		if (r != 0)
			return r;
		buf_consume(b, line + 1);
		*scanned = 0;
	}
	*scanned = b->len;
	return 0;
}

/* 1: there is something to read, 0: not yet. */
static int wait_input(const struct image_worker *w, struct progress *p, struct err *e)
{
	struct pollfd fds[] = {
		{.fd = w->signal_fd, .events = POLLIN}, {.fd = w->in, .events = POLLIN}};
	int n = poll(fds, 2, progress_moves(p) ? TICK_MS : -1);

	if (n < 0 && errno != EINTR)
		return err_errno(e, errno, "waiting for kosa8-image");
	if (n == 0)
		progress_tick(p);
	return n > 0 && fds[1].revents != 0;
}

/* Reads lines until the last one: 1, or the end of the stream: 0. */
static int read_lines(const struct image_worker *w, const char *verb, struct progress *p,
	struct image_gots *ret, struct err *e)
{
	cleanup_buf struct buf b = {0};
	size_t scanned = 0;
	int r;

	buf_init(&b, LINE_MAX_BYTES);
	for (;;) {
		r = wait_input(w, p, e);
		if (r >= 0 && interrupted(w))
			return cancelled(verb, e);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		size_t len = b.len;
		char *to = buf_extend(&b, READ_CHUNK);
		if (!to)
			return err_set(
				e, ERR_PROTOCOL, 0, "kosa8-image wrote a line that is too long");
		ssize_t n = read(w->in, to, READ_CHUNK);
		b.len = len + (n > 0 ? (size_t)n : 0);
		if (n < 0 && errno != EINTR)
			return err_errno(e, errno, "reading from kosa8-image");
		if (n == 0)
			return 0;
		if ((r = take_lines(&b, &scanned, p, ret, e)) != 0)
			return r;
	}
}

/* It said nothing at the end: why. */
static int no_result(struct image_worker *w, const char *verb, struct err *e)
{
	int code = spawn_wait(w->pid);

	w->pid = 0;
	/* A terminal's ^C ends both at once. */
	if (!interrupted(w) && code == 128 + SIGINT)
		interrupted_by = SIGINT;
	if (interrupted_by)
		return cancelled(verb, e);
	return err_set(e, ERR_UNAVAILABLE, 0,
		code > 128 ? "kosa8-image was ended by signal %d"
			   : "kosa8-image ended without a result (status %d)",
		code > 128 ? code - 128 : code);
}

int image_worker_run(struct image_worker *w, const struct context *c, const struct image_work *work,
	struct image_gots *ret, struct err *e)
{
	cleanup_strv char **argv = NULL;
	struct progress progress;
	int r;

	*w = (struct image_worker){.in = -1, .signal_fd = -1};
	if ((r = worker_argv(c, work, &argv, e)) < 0 || (r = watch_signals(w, e)) < 0 ||
		(r = worker_start(w, argv, work->output, &w->in, e)) < 0)
		return r;
	progress_init(&progress, work->progress);
	r = read_lines(w, work->verb, &progress, ret, e);
	progress_end(&progress, r > 0);
	if (r == 0)
		return no_result(w, work->verb, e);
	if (r < 0) {
		(void)kill(w->pid, SIGKILL);
		(void)spawn_wait(w->pid);
		w->pid = 0;
	}
	return r < 0 ? r : 0;
}

void image_worker_dismiss(struct image_worker *w)
{
	w->in = fd_close(w->in);
	if (w->pid > 0)
		(void)spawn_wait(w->pid);
	w->pid = 0;
}

void image_worker_release(struct image_worker *w)
{
	if (!w->masked && w->pid == 0)
		return;
	image_worker_dismiss(w);
	w->signal_fd = fd_close(w->signal_fd);
	if (w->masked)
		(void)sigprocmask(SIG_SETMASK, &w->mask, NULL);
	*w = (struct image_worker){.in = -1, .signal_fd = -1};
}
