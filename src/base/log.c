/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include "clock.h"
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char program_name[32] = "kosa8";
static char sandbox_name[80];

void log_init(const char *program, const char *sandbox)
{
	(void)snprintf(program_name, sizeof(program_name), "%s", program);
	(void)snprintf(sandbox_name, sizeof(sandbox_name), "%s%s", sandbox ? " " : "",
		sandbox ? sandbox : "");
}

static enum log_level threshold(void)
{
	const char *v = getenv("KOSA8_LOG");

	if (v && strcmp(v, "debug") == 0)
		return LOG_DEBUG;
	if (v && strcmp(v, "info") == 0)
		return LOG_INFO;
	return LOG_WARN;
}

void log_line(enum log_level level, const char *fmt, ...)
{
	static const char *const names[] = {"debug", "info", "warn"};
	int saved = errno;
	char text[700], safe[1400], stamp[CLOCK_RFC3339_SIZE], line[1600];
	va_list ap;

	if (level < threshold())
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	text_escape(text, safe, sizeof(safe));
	clock_rfc3339(clock_wall_ns(), stamp);
	int n = snprintf(line, sizeof(line), "%s %s%s %s: %s\n", stamp, program_name, sandbox_name,
		names[level], safe);
	if (n > 0)
		(void)!write(
			STDERR_FILENO, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line));
	errno = saved;
}
