/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Diagnostics for the people who run kosa8, one line each on stderr (for a supervisor: its log
 * file). Not the way to report an error to a caller (err.h), and not the audit log (store/audit.h).
 * Keeps errno; control bytes in the text are escaped. KOSA8_LOG=debug|info|warn sets the level,
 * default warn.
 */
#ifndef KOSA8_BASE_LOG_H
#define KOSA8_BASE_LOG_H

#include "err.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN };

/* Names the process in every line; call once, before the first line. Copies the strings. */
void log_init(const char *program, const char *sandbox);
void log_line(enum log_level level, const char *fmt, ...) format_printf(2, 3);

#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)

#endif
