/* SPDX-License-Identifier: Apache-2.0 */
#include "since.h"

#include "../base/text.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)

/* The digits after the point, as nanoseconds; *s moves behind them. */
static int64_t fraction_ns(const char **s)
{
	int64_t ns = 0, unit = NS_PER_S;

	for (; **s >= '0' && **s <= '9'; (*s)++) {
		unit /= 10;
		ns += unit * (**s - '0');
	}
	return ns;
}

/* "Z", "+02:00" or "-02:00": seconds east of UTC. */
static int offset_s(const char *s, int64_t *ret)
{
	uint64_t hours, minutes;
	char part[3] = "";

	if (strcmp(s, "Z") == 0 || strcmp(s, "z") == 0) {
		*ret = 0;
		return 0;
	}
	if ((s[0] != '+' && s[0] != '-') || strlen(s) != 6 || s[3] != ':')
		return -EINVAL;
	memcpy(part, s + 1, 2);
	if (text_parse_u64(part, 0, 23, &hours) < 0)
		return -EINVAL;
	memcpy(part, s + 4, 2);
	if (text_parse_u64(part, 0, 59, &minutes) < 0)
		return -EINVAL;
	*ret = (int64_t)(hours * 3600 + minutes * 60) * (s[0] == '-' ? -1 : 1);
	return 0;
}

int since_parse_rfc3339(const char *s, int64_t *ret_ns)
{
	struct tm tm = {0};
	int64_t offset, ns = 0;
	const char *end = strptime(s, "%Y-%m-%dT%H:%M:%S", &tm);

	/* strptime() allows spaces and short years; RFC 3339 has 19 characters here. */
	if (!end || end != s + 19 || strchr(s, ' '))
		return -EINVAL;
	if (*end == '.') {
		const char *digits = ++end;
		ns = fraction_ns(&end);
		if (end == digits)
			return -EINVAL;
	}
	if (offset_s(end, &offset) < 0)
		return -EINVAL;
	*ret_ns = ((int64_t)timegm(&tm) - offset) * NS_PER_S + ns;
	return 0;
}

int since_parse(const char *s, int64_t now_ns, int64_t *ret_ns)
{
	uint64_t ms;

	if (text_parse_duration_ms(s, &ms) == 0) {
		*ret_ns = now_ns - (int64_t)ms * 1000000;
		return 0;
	}
	return since_parse_rfc3339(s, ret_ns);
}
