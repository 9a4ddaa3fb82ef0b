/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While a line is read, signals that would end or stop the process are blocked except in ppoll(2),
 * and only set a flag there: the read ends, the terminal is restored, and the signal is raised
 * again with the disposition it had. After a stop (^Z and fg) the question is asked once more.
 */
#include "password.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
#define LINE_CHUNK 4097 /* more than a line can have: N_TTY_BUF_SIZE of Linux */
#define CAUGHT (sizeof(caught) / sizeof(caught[0]))

static volatile sig_atomic_t pending;

static void on_signal(int sig)
{
	pending = sig;
}

struct signals {
	struct sigaction actions[CAUGHT];
	sigset_t mask;
};

static void catch_signals(struct signals *former)
{
	struct sigaction sa = {.sa_handler = on_signal};
	sigset_t blocked;

	pending = 0;
	(void)sigemptyset(&blocked);
	for (size_t i = 0; i < CAUGHT; i++)
		(void)sigaddset(&blocked, caught[i]);
	(void)sigprocmask(SIG_BLOCK, &blocked, &former->mask);
	for (size_t i = 0; i < CAUGHT; i++) {
		(void)sigaction(caught[i], NULL, &former->actions[i]);
		if (former->actions[i].sa_handler != SIG_IGN)
			(void)sigaction(caught[i], &sa, NULL);
	}
}

static void release_signals(const struct signals *former)
{
	for (size_t i = 0; i < CAUGHT; i++)
		(void)sigaction(caught[i], &former->actions[i], NULL);
	(void)sigprocmask(SIG_SETMASK, &former->mask, NULL);
}

static bool is_canonical(void)
{
	struct termios t;

	return tcgetattr(STDIN_FILENO, &t) == 0 && (t.c_lflag & ICANON);
}

/* One read(2): 1 when the line has ended, 2 when the input has. A terminal in its usual mode gives
 * whole lines, or what was typed before ^D. */
static int read_part(struct buf *b, bool whole_lines)
{
	char chunk[LINE_CHUNK];
	ssize_t n = read(STDIN_FILENO, chunk, whole_lines ? sizeof(chunk) : 1);

	if (n < 0)
		return -errno;
	bool newline = n > 0 && chunk[n - 1] == '\n';
	bool part = n > 0 && whole_lines && (size_t)n < sizeof(chunk);
	buf_put(b, chunk, (size_t)n - newline);
	explicit_bzero(chunk, sizeof(chunk));
	return n == 0 ? 2 : newline || part;
}

/* Up to the end of the line, or ^D after a part of it; -EINTR for a signal. */
static int read_line(struct buf *b, const sigset_t *mask)
{
	bool whole_lines = is_canonical();
	size_t before = b->len;

	for (;;) {
		struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
		if (ppoll(&p, 1, NULL, mask) < 0) {
			if (errno == EINTR && !pending)
				continue;
			return -errno;
		}
		int r = read_part(b, whole_lines);
		if (r < 0)
			return r;
		if (r > 0)
			return r == 1 || b->len > before ? 0 : -ENODATA;
	}
}

static int read_hidden(const char *prompt, struct buf *b, const sigset_t *mask)
{
	struct termios shown, hidden;

	if (tcgetattr(STDIN_FILENO, &shown) < 0)
		return -errno;
	hidden = shown;
	hidden.c_lflag &= ~(tcflag_t)ECHO;
	if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) < 0)
		return -errno;
	(void)fprintf(stderr, "%s", prompt);
	(void)fflush(stderr);
	int r = read_line(b, mask);
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &shown);
	(void)fputc('\n', stderr);
	return r;
}

static int ask_once(const char *prompt, bool echo, struct buf *b)
{
	struct signals former;
	int r;

	catch_signals(&former);
	if (echo) {
		(void)fprintf(stderr, "%s", prompt);
		(void)fflush(stderr);
		r = read_line(b, &former.mask);
	} else {
		r = read_hidden(prompt, b, &former.mask);
	}
	release_signals(&former);
	return r;
}

int password_ask(const char *prompt, bool echo, struct buf *b, struct err *e)
{
	size_t before = b->len;

	for (;;) {
		int r = ask_once(prompt, echo, b);
		if (r == 0 && !buf_failed(b))
			return 0;
		if (r == 0)
			return err_set(
				e, ERR_LIMIT, 0, "that is longer than %u bytes", PASSWORD_MAX);
		if (r == -ENODATA)
			return err_set(e, ERR_CANCELLED, 0, "nothing was typed");
		if (r != -EINTR)
			return err_errno(e, -r, "cannot read from the terminal");
		if (b->len > before)
			explicit_bzero(b->data + before, b->len - before);
		b->len = before;
		(void)raise(pending);
	}
}
