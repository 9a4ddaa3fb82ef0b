/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include "../base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TABLE_TEXT_MAX (64u * 1024 * 1024)
#define GAP 3 /* spaces between columns */

static void put_line(FILE *to, const char *prefix, const char *text)
{
	char safe[4096];

	text_escape(text, safe, sizeof(safe));
	(void)fprintf(to, "%s%s\n", prefix, safe);
}

void output_error(const struct err *e)
{
	put_line(stderr, "kosa8: ", e->what);
	if (*e->hint)
		put_line(stderr, "  try: ", e->hint);
}

void output_notice(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put_line(stderr, "", text);
}

void output_line(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put_line(stdout, "", text);
}

static int dump(const json_t *j, size_t flags, struct err *e)
{
	errno = 0;
	if (j && json_dumpf(j, stdout, flags) == 0 && putchar('\n') != EOF)
		return 0;
	return err_errno(e, errno ? errno : ENOMEM, "writing the output");
}

int output_json(json_t *j, struct err *e)
{
	int r = dump(j, JSON_INDENT(2) | JSON_REAL_PRECISION(6), e);

	json_decref(j);
	return r;
}

int output_json_line(const json_t *j, struct err *e)
{
	return dump(j, JSON_COMPACT, e);
}

int output_finish(struct err *e)
{
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	return err_errno(e, errno ? errno : EIO, "writing the output");
}

void output_time(int64_t wall_ns, char ret[static OUTPUT_TIME_SIZE])
{
	time_t seconds = (time_t)(wall_ns / 1000000000);
	struct tm tm;

	if (wall_ns <= 0 || !localtime_r(&seconds, &tm) ||
		strftime(ret, OUTPUT_TIME_SIZE, "%Y-%m-%d %H:%M:%S", &tm) == 0)
		(void)snprintf(ret, OUTPUT_TIME_SIZE, "-");
}

bool output_progress(void)
{
	return isatty(STDERR_FILENO);
}

void table_init(struct table *t, const char *const *headers, size_t shaded_column)
{
	*t = (struct table){.shaded = shaded_column};
	while (headers[t->columns] && t->columns < TABLE_COLUMNS_MAX)
		t->columns++;
	table_row(t, SHADE_NONE, headers);
}

void table_release(struct table *t)
{
	for (size_t i = 0; i < t->rows * t->columns; i++)
		free(t->cells[i]);
	free(t->cells);
	free(t->shades);
	*t = (struct table){0};
}

static char *cell_copy(const char *s)
{
	const char *text = s && *s ? s : "-";
	size_t size = 4 * strlen(text) + 1; /* \xNN for each byte */
	char *safe = malloc(size);

	if (safe)
		text_escape(text, safe, size);
	return safe;
}

static bool table_grow(struct table *t)
{
	/* Powers of two: room for 1, 2, 4, ... rows. */
	if (t->rows & (t->rows - 1))
		return true;
	size_t room = t->rows ? 2 * t->rows : 1;
	char **cells = realloc(t->cells, room * t->columns * sizeof(*cells));
	if (!cells)
		return false;
	t->cells = cells;
	enum shade *shades = realloc(t->shades, room * sizeof(*shades));
	if (!shades)
		return false;
	t->shades = shades;
	return true;
}

void table_row(struct table *t, enum shade shade, const char *const *cells)
{
	if (t->failed || !table_grow(t)) {
		t->failed = true;
		return;
	}
	char **row = t->cells + t->rows * t->columns;
	t->shades[t->rows++] = shade;
	for (size_t i = 0; i < t->columns; i++) {
		row[i] = cell_copy(cells[i]);
		t->failed = t->failed || !row[i];
	}
}

/* Characters, not bytes. */
static size_t text_width(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static const char *colour_of(const struct table *t, size_t row, size_t column)
{
	static const char *const shades[] = {NULL, "\033[32m", "\033[33m", "\033[31m"};

	if (row == 0)
		return "\033[1m";
	return column == t->shaded ? shades[t->shades[row]] : NULL;
}

static void format_row(
	const struct table *t, size_t row, const size_t *widths, bool colour, struct buf *b)
{
	for (size_t i = 0; i < t->columns; i++) {
		const char *cell = t->cells[row * t->columns + i];
		const char *on = colour ? colour_of(t, row, i) : NULL;
		size_t pad = widths[i] - text_width(cell) + GAP;
		if (on)
			buf_put(b, on, strlen(on));
		buf_put(b, cell, strlen(cell));
		if (on)
			buf_put(b, "\033[0m", 4);
		for (; i + 1 < t->columns && pad > 0; pad--)
			buf_put_u8(b, ' ');
	}
	buf_put_u8(b, '\n');
}

int table_format(const struct table *t, bool colour, struct buf *b, struct err *e)
{
	size_t widths[TABLE_COLUMNS_MAX] = {0};

	if (t->failed)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	for (size_t i = 0; i < t->rows * t->columns; i++) {
		size_t w = text_width(t->cells[i]);
		if (w > widths[i % t->columns])
			widths[i % t->columns] = w;
	}
	for (size_t row = 0; row < t->rows; row++)
		format_row(t, row, widths, colour, b);
	return buf_failed(b) ? err_set(e, ERR_IO, ENOMEM, "out of memory") : 0;
}

int table_print(const struct table *t, struct err *e)
{
	const char *no_colour = getenv("NO_COLOR");
	bool colour = isatty(STDOUT_FILENO) && !(no_colour && *no_colour);
	cleanup_buf struct buf b = {0};

	buf_init(&b, TABLE_TEXT_MAX);
	int r = table_format(t, colour, &b, e);
	if (r < 0)
		return r;
	if (fwrite(b.data, 1, b.len, stdout) != b.len)
		return err_errno(e, errno, "writing the output");
	return 0;
}
