/* SPDX-License-Identifier: Apache-2.0 */
#include "terminal.h"

#include "../base/strv.h"
#include "../base/text.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define TERM_VALUE_MAX 64

/* Read by signal handlers: fd is set last and cleared first. */
static struct termios saved;
static volatile sig_atomic_t taken_fd = -1;

void terminal_restore(void)
{
	int fd = taken_fd, keep = errno;
	sigset_t block, before;

	taken_fd = -1;
	if (fd < 0)
		return;
	/* In the background it is another job's; a terminal that is not the controlling one has no
	 * jobs. */
	pid_t foreground = tcgetpgrp(fd);
	if (foreground < 0 || foreground == getpgrp()) {
		(void)sigemptyset(&block);
		(void)sigaddset(&block, SIGTTOU);
		(void)sigprocmask(SIG_BLOCK, &block, &before);
		(void)tcsetattr(fd, TCSANOW, &saved);
		(void)sigprocmask(SIG_SETMASK, &before, NULL);
	}
	errno = keep;
}

static void on_fatal(int number)
{
	terminal_restore();
	/* Its default action follows: SA_RESETHAND. */
	(void)raise(number);
}

/* Those that end a process and are not blocked while a program has the terminal. */
static void catch_fatal(void)
{
	static const int fatal[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGALRM,
		SIGUSR1, SIGUSR2, SIGXCPU};
	struct sigaction action = {
		.sa_handler = on_fatal, .sa_flags = (int)SA_RESETHAND | SA_NODEFER};

	(void)sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++) {
		struct sigaction old;
		if (sigaction(fatal[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
			(void)sigaction(fatal[i], &action, NULL);
	}
}

static void set_mode(struct termios *t, enum terminal_mode mode)
{
	tcflag_t output = t->c_oflag;

	cfmakeraw(t);
	if (mode != TERMINAL_RAW)
		t->c_lflag |= ISIG;
	/* Notices are still lines then. */
	if (mode == TERMINAL_WAITING)
		t->c_oflag = output;
}

bool terminal_take(int fd, enum terminal_mode mode)
{
	static bool prepared;
	struct termios now;
	pid_t foreground;

	if (!isatty(fd))
		return false;
	foreground = tcgetpgrp(fd);
	if ((foreground >= 0 && foreground != getpgrp()) || tcgetattr(fd, &now) < 0)
		return false;
	if (!prepared) {
		prepared = true;
		(void)atexit(terminal_restore);
		catch_fatal();
	}
	if (taken_fd < 0) {
		saved = now;
		taken_fd = fd;
	}
	now = saved;
	set_mode(&now, mode);
	return tcsetattr(fd, TCSANOW, &now) == 0;
}

struct agent_size terminal_size(void)
{
	struct agent_size size = {.rows = 24, .columns = 80};
	struct winsize w;

	for (int fd = 0; fd < 3; fd++) {
		if (ioctl(fd, TIOCGWINSZ, &w) < 0)
			continue;
		if (w.ws_row > 0 && w.ws_col > 0)
			size = (struct agent_size){.rows = w.ws_row, .columns = w.ws_col};
		break;
	}
	return size;
}

void terminal_stop(void)
{
	terminal_restore();
	/* Not SIGTSTP: that one is blocked, and does nothing in a process group without a shell. */
	(void)raise(SIGSTOP);
}

int terminal_env(char ***env)
{
	static const char *const names[] = {"TERM", "COLORTERM"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);
		size_t len = value ? strlen(value) : 0;
		/* As docker does where nothing is known. */
		if (i == 0 && (len == 0 || len > TERM_VALUE_MAX || !text_is_utf8(value, len)))
			value = "xterm";
		else if (len == 0 || len > TERM_VALUE_MAX)
			continue;
		if (strv_env_get(*env, names[i]))
			continue;
		cleanup_str char *assignment = NULL;
		size_t size = strlen(names[i]) + strlen(value) + 2;
		assignment = malloc(size);
		if (!assignment)
			return -ENOMEM;
		(void)snprintf(assignment, size, "%s=%s", names[i], value);
		if (strv_env_set(env, assignment) < 0)
			return -ENOMEM;
	}
	return 0;
}
