/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"

#include <limits.h>
#include <stdio.h>
#include <time.h>

static int64_t read_ns(clockid_t id)
{
	struct timespec ts;

	(void)clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t clock_mono_ms(void)
{
	return read_ns(CLOCK_MONOTONIC) / 1000000;
}

int64_t clock_mono_us(void)
{
	return read_ns(CLOCK_MONOTONIC) / 1000;
}

int64_t clock_wall_ns(void)
{
	return read_ns(CLOCK_REALTIME);
}

void clock_rfc3339(int64_t wall_ns, char ret[static CLOCK_RFC3339_SIZE])
{
	time_t seconds = (time_t)(wall_ns / 1000000000);
	struct tm tm;
	char date[24];

	if (!gmtime_r(&seconds, &tm) ||
		strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm) == 0) {
		(void)snprintf(ret, CLOCK_RFC3339_SIZE, "invalid-time");
		return;
	}
	(void)snprintf(ret, CLOCK_RFC3339_SIZE, "%s.%03dZ", date, (int)(wall_ns / 1000000 % 1000));
}

int clock_left_ms(int64_t deadline_ms)
{
	if (deadline_ms < 0)
		return -1;
	int64_t left = deadline_ms - clock_mono_ms();
	if (left < 0)
		return 0;
	return left > INT_MAX ? INT_MAX : (int)left;
}
