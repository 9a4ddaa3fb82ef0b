/* SPDX-License-Identifier: Apache-2.0 */
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>

int signals_watch(const int *signals, size_t len, struct err *e)
{
	sigset_t set;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigemptyset(&set);
	for (size_t i = 0; i < len; i++) {
		struct sigaction old;
		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			(void)sigaddset(&set, signals[i]);
	}
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? err_errno(e, errno, "cannot watch for signals") : fd;
}

void signals_unblock(const int *signals, size_t len)
{
	sigset_t set;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < len; i++)
		(void)sigaddset(&set, signals[i]);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}
