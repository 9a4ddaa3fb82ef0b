/* SPDX-License-Identifier: Apache-2.0 */
/* The log file, read in bounded memory. */
#ifndef KOSA8_STORE_AUDIT_LOG_H
#define KOSA8_STORE_AUDIT_LOG_H

#include "audit-record.h"

#include <sys/types.h>

#define AUDIT_LOG "log.jsonl"

/* Lines from `offset` up to `end`, one at a time. */
struct audit_lines {
	int fd; /* borrowed */
	off_t offset, end;
	char *chunk; /* owned */
	size_t at, filled;
	uint64_t line; /* number of the last one given, 1-based */
};
enum audit_line {
	AUDIT_LINE_END,
	AUDIT_LINE_WHOLE,
	AUDIT_LINE_LONG, /* over AUDIT_LINE_MAX: skipped, no text */
	AUDIT_LINE_TORN, /* the last one, without a newline */
};
int audit_lines_init(struct audit_lines *l, int fd, off_t end, struct err *e) must_check;
void audit_lines_release(struct audit_lines *l);
#define cleanup_audit_lines __attribute__((cleanup(audit_lines_release)))
/* An enum audit_line, or negative. The text (no newline, not terminated) may be changed by the
 * caller and is valid until the next call. */
int audit_lines_next(
	struct audit_lines *l, char **ret_line, size_t *ret_len, struct err *e) must_check;
/* Where the next line begins. */
off_t audit_lines_tell(const struct audit_lines *l);

/* The end of the log: the last whole line, and what a torn write left behind it. */
struct audit_tail {
	off_t whole;	/* size without the torn bytes */
	size_t torn;	/* AUDIT_LINE_MAX + 1: that many or more */
	bool has_line;	/* there is a whole line */
	bool is_record; /* and it scans and holds */
	struct audit_scan last;
};
int audit_tail_read(int fd, off_t size, struct audit_tail *ret, struct err *e) must_check;

#endif
