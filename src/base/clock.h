/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks. Units are in the names; a deadline is a value of clock_mono_ms(). */
#ifndef KOSA8_BASE_CLOCK_H
#define KOSA8_BASE_CLOCK_H

#include <stdint.h>

int64_t clock_mono_ms(void);
int64_t clock_mono_us(void);
int64_t clock_wall_ns(void); /* since 1970-01-01 UTC */

/* RFC 3339 in UTC with milliseconds: 2026-01-31T12:00:00.000Z */
#define CLOCK_RFC3339_SIZE 32
void clock_rfc3339(int64_t wall_ns, char ret[static CLOCK_RFC3339_SIZE]);
/* The milliseconds left until a deadline, for poll(2): 0 when it has passed; -1 for deadline -1. */
int clock_left_ms(int64_t deadline_ms);

#endif
