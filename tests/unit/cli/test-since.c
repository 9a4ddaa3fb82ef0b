/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/since.h"

#include "tap.h"

#define S INT64_C(1000000000)

static void gives(const char *s, int64_t want, const char *what)
{
	int64_t got = -1;

	OK(since_parse_rfc3339(s, &got) == 0, what);
	EQ_INT(got, want, s);
}

static void refused(const char *s)
{
	int64_t got = 42;

	OK(since_parse_rfc3339(s, &got) < 0 && got == 42, s);
}

int main(void)
{
	int64_t got;

	gives("2026-01-31T12:00:00Z", INT64_C(1769860800) * S, "UTC");
	gives("2026-01-31T12:00:00.250Z", INT64_C(1769860800) * S + S / 4, "a fraction");
	gives("2026-01-31T14:30:00+02:30", INT64_C(1769860800) * S, "east");
	gives("2026-01-31T11:00:00-01:00", INT64_C(1769860800) * S, "west");
	gives("1970-01-01T00:00:00z", 0, "the first second");
	refused("2026-01-31T12:00:00");
	refused("2026-01-31");
	refused("2026-13-31T12:00:00Z");
	refused("2026-01-31 12:00:00Z");
	refused("2026-01-31T12:00:00.Z");
	refused("2026-01-31T12:00:00Zx");
	refused("2026-01-31T12:00:00+2:00");
	refused("2026-1-31T12:00:00Z");
	refused("");
	OK(since_parse("1h", 7200 * S, &got) == 0 && got == 3600 * S, "an age");
	OK(since_parse("1970-01-01T00:00:01Z", 0, &got) == 0 && got == S, "or a time");
	OK(since_parse("yesterday", 0, &got) < 0, "neither");
	return tap_done();
}
