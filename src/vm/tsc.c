/* SPDX-License-Identifier: Apache-2.0 */
#include "tsc.h"

#include <stdbool.h>
#include <time.h>

#define MEASURE_NS INT64_C(50000000)
/* Between the readings of the clock around one of the counter: else the process was interrupted. */
#define CLOSE_NS 10000
#define TRIES 1000

#if defined(__x86_64__)

static int64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static bool read_both(int64_t *ret_ns, uint64_t *ret_tsc)
{
	for (int i = 0; i < TRIES; i++) {
		int64_t before = now_ns();
		uint64_t tsc = __builtin_ia32_rdtsc();
		int64_t after = now_ns();

		if (after - before > CLOSE_NS)
			continue;
		*ret_ns = before + (after - before) / 2;
		*ret_tsc = tsc;
		return true;
	}
	return false;
}

uint64_t tsc_measure_khz(void)
{
	uint64_t from, to;
	int64_t began, ended;

	if (!read_both(&began, &from))
		return 0;
	do {
		if (!read_both(&ended, &to))
			return 0;
	} while (ended - began < MEASURE_NS);
	if (to <= from)
		return 0;
	return (uint64_t)((double)(to - from) * 1e6 / (double)(ended - began));
}

#else

uint64_t tsc_measure_khz(void)
{
	return 0;
}

#endif
