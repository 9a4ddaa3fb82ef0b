/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the user sees. stdout carries results only; notices and errors go to stderr. Text that may
 * come from a guest, a registry or a file is escaped here, so callers pass it as it is. Colour only
 * on a terminal, and not with NO_COLOR set.
 */
#ifndef KOSA8_CLI_OUTPUT_H
#define KOSA8_CLI_OUTPUT_H

#include "../base/buf.h"
#include "../base/err.h"
#include "../base/json.h"

#include <stdint.h>
#include <stdio.h>

/* "kosa8: WHAT" and, where there is one, "  try: HINT". */
void output_error(const struct err *e);
/* One line on stderr. */
void output_notice(const char *fmt, ...) format_printf(1, 2);
/* One line of a result on stdout. */
void output_line(const char *fmt, ...) format_printf(1, 2);
/* A result as indented JSON; takes j. ERR_IO when j is NULL: out of memory. */
int output_json(json_t *j, struct err *e) must_check;
/* The same on one line, for streams of records; j is borrowed. */
int output_json_line(const json_t *j, struct err *e) must_check;
/* Flushes stdout: a result that could not be written (full disk) is an error. */
int output_finish(struct err *e) must_check;

/* 2026-01-31 12:00:00 in local time; "-" for 0. */
#define OUTPUT_TIME_SIZE 32
void output_time(int64_t wall_ns, char ret[static OUTPUT_TIME_SIZE]);
/* Whether stderr is a terminal: progress is shown. */
bool output_progress(void);

enum shade { SHADE_NONE, SHADE_GOOD, SHADE_WARN, SHADE_BAD };

#define TABLE_COLUMNS_MAX 8
struct table {
	size_t columns;
	size_t rows;	    /* with the header */
	char **cells;	    /* rows * columns; escaped */
	enum shade *shades; /* of each row's shaded column */
	size_t shaded;	    /* the column that is coloured; columns: none */
	bool failed;	    /* sticky: out of memory */
};
/* headers: NULL-terminated. */
void table_init(struct table *t, const char *const *headers, size_t shaded_column);
void table_release(struct table *t);
/* As many cells as headers; NULL shows as "-". */
void table_row(struct table *t, enum shade shade, const char *const *cells);
/* The text of the table, aligned; colour as told. */
int table_format(const struct table *t, bool colour, struct buf *b, struct err *e) must_check;
int table_print(const struct table *t, struct err *e) must_check;
#define cleanup_table __attribute__((cleanup(table_release)))

#endif
