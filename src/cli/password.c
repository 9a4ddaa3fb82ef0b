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

/* Up to the end of the line; -EINTR for a signal. */
static int read_line(struct buf *b, const sigset_t *mask)
{
	for (;;) {
		struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
		char c;
		if (ppoll(&p, 1, NULL, mask) < 0) {
			if (errno == EINTR && !pending)
				continue;
			return -errno;
		}
		ssize_t n = read(STDIN_FILENO, &c, 1);
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ENODATA;
		if (c == '\n')
			return 0;
		buf_put_u8(b, (unsigned char)c);
		explicit_bzero(&c, 1);
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
