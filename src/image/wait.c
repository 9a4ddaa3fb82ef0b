/* SPDX-License-Identifier: Apache-2.0 */
#include "wait.h"

#include "registry/http.h"

#include "../base/clock.h"
#include "../base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>

#define LOOK_MS_MAX 1000

static void on_alarm(int number)
{
	(void)number;
}

/* The lock comes as soon as it is free; a signal now and then is the time to look how the other
 * gets on. It repeats, so one that comes between two calls does no harm. */
static int start_alarms(int64_t interval_ms)
{
	struct sigaction sa = {.sa_handler = on_alarm};
	struct timeval interval = {interval_ms / 1000, interval_ms % 1000 * 1000};
	struct itimerval timer = {interval, interval};

	if (sigaction(SIGALRM, &sa, NULL) < 0 || setitimer(ITIMER_REAL, &timer, NULL) < 0)
		return -errno;
	return 0;
}

static void stop_alarms(void)
{
	const struct itimerval off = {0};

	(void)setitimer(ITIMER_REAL, &off, NULL);
}

static int lock_or_signal(int fd)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return fcntl(fd, F_OFD_SETLKW, &whole) < 0 ? -errno : 0;
}

int wait_lock(int fd, const struct wait *w)
{
	if (!w)
		return lock_take(fd, true);

	int64_t limit_ms = (int64_t)http_env_ms("KOSA8_PULL_WAIT_MS", WAIT_MS);
	int64_t since = clock_mono_ms();
	uint64_t seen = w->seen(w);
	int r = start_alarms(limit_ms < LOOK_MS_MAX ? limit_ms : LOOK_MS_MAX);

	while (r == 0 && (r = lock_or_signal(fd)) == -EINTR) {
		uint64_t now = w->seen(w);
		r = 0;
		if (now >= seen + WAIT_BYTES_MIN) {
			seen = now;
			since = clock_mono_ms();
		} else if (clock_mono_ms() - since >= limit_ms) {
			r = -ETIMEDOUT;
		}
	}
	stop_alarms();
	return r;
}
