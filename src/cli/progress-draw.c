/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One frame: the cursor goes up to where the last frame began, every line is written anew, what is
 * left below is cleared, and the cursor stands on the line after. A line is at most one column
 * narrower than the terminal, so it never wraps, and a frame has fewer lines than the terminal.
 */
#include "progress.h"

#include "../base/text.h"

#include <stdio.h>
#include <string.h>

#define LINE_SIZE 512
#define NAME_WIDTH 16 /* "  0123456789ab  " */
#define TEXT_WIDTH 33 /* "123.4 MB of 456.7 MB  12.3 MB/s" and what is between it and the bar */
#define BAR_MIN 8
#define BAR_MAX 30

struct frame {
	struct progress *p;
	struct buf *b;
	size_t width, rows;
	int64_t now_ms;
};

static void put_text(struct buf *b, const char *line, size_t width)
{
	size_t len = strlen(line);

	buf_put(b, line, len < width ? len : width);
	buf_putf(b, "\033[K\n");
}

/* A line that the next frame rewrites. */
static void put_line(struct frame *f, const char *line)
{
	size_t len = strlen(line);

	if (f->p->lines == PROGRESS_LINES_MAX)
		return;
	f->p->widths[f->p->lines++] = (uint16_t)(len < f->width ? len : f->width);
	put_text(f->b, line, f->width);
}

static unsigned percent(uint64_t done, uint64_t size)
{
	return size == 0 ? 0 : done >= size ? 100 : (unsigned)((double)done * 100 / (double)size);
}

#define BAR_SIZE (BAR_MAX + 5)

static void format_bar(uint64_t done, uint64_t size, size_t room, char ret[static BAR_SIZE])
{
	size_t width = (room > BAR_MAX ? BAR_MAX : room) - 2;
	double part = done < size ? (double)done / (double)size : 1;

	ret[0] = '[';
	memset(ret + 1, ' ', width);
	memset(ret + 1, '=', (size_t)(part * (double)width));
	memcpy(ret + 1 + width, "]  ", 4);
}

/* The widest of the forms that fits. */
static void format_moving(const struct progress_layer *l, size_t room, char *ret, size_t ret_size)
{
	char done[TEXT_SIZE_MAX], size[TEXT_SIZE_MAX], rate[TEXT_SIZE_MAX], bar[BAR_SIZE] = "";
	unsigned part = percent(l->done, l->size);

	text_size(l->done, done);
	text_size(l->size, size);
	text_size((uint64_t)l->rate.per_s, rate);
	if (l->size == 0) {
		(void)snprintf(ret, ret_size, "%s  %s/s", done, rate);
		return;
	}
	if (room >= TEXT_WIDTH + BAR_MIN)
		format_bar(l->done, l->size, room - TEXT_WIDTH, bar);
	if ((size_t)snprintf(ret, ret_size, "%s%s of %s  %s/s", bar, done, size, rate) <= room)
		return;
	if ((size_t)snprintf(ret, ret_size, "%s of %s  %u%%", done, size, part) <= room)
		return;
	if ((size_t)snprintf(ret, ret_size, "%s  %u%%", done, part) > room)
		(void)snprintf(ret, ret_size, "%u%%", part);
}

static void format_layer(const struct frame *f, const struct progress_layer *l, char *ret)
{
	size_t room = f->width > NAME_WIDTH ? f->width - NAME_WIDTH : 0;
	char text[LINE_SIZE / 2], size[TEXT_SIZE_MAX];

	text_size(l->size, size);
	if (progress_complete(l))
		(void)snprintf(text, sizeof(text), "%s%s", size, l->here ? ", already here" : "");
	else if (!l->begun)
		(void)snprintf(text, sizeof(text), "%s, waiting", l->size ? size : "?");
	else
		format_moving(l, room, text, sizeof(text));
	(void)snprintf(ret, LINE_SIZE, "  %-12s  %s", l->name, text);
}

static void put_conversion(struct frame *f)
{
	struct progress *p = f->p;
	uint64_t bytes = p->converted + p->converting;
	char line[LINE_SIZE], size[TEXT_SIZE_MAX], rate[TEXT_SIZE_MAX], of[64] = "";

	if (p->rate.when_ms == 0)
		return;
	progress_rate(&p->rate, bytes, f->now_ms);
	text_size(bytes, size);
	text_size((uint64_t)p->rate.per_s, rate);
	if (p->len > 0 && p->convert_layer < p->len)
		(void)snprintf(of, sizeof(of), "  layer %u of %zu", (unsigned)p->convert_layer + 1,
			p->len);
	if (p->ended)
		(void)snprintf(line, sizeof(line), "  unpacked      %s", size);
	else
		(void)snprintf(line, sizeof(line), "  unpacking     %s  %s/s%s", size, rate, of);
	put_line(f, line);
}

static void put_sum(struct frame *f)
{
	const struct progress *p = f->p;
	char line[LINE_SIZE], done_text[TEXT_SIZE_MAX], size_text[TEXT_SIZE_MAX],
		rate_text[TEXT_SIZE_MAX];
	uint64_t done = 0, size = 0;
	double rate = 0;
	size_t complete = 0;

	for (size_t i = 0; i < p->len; i++) {
		const struct progress_layer *l = &p->layers[i];
		bool whole = progress_complete(l);
		complete += whole;
		done += whole ? l->size : l->done;
		size += l->size;
		rate += whole ? 0 : l->rate.per_s;
	}
	text_size(done, done_text);
	text_size(size, size_text);
	text_size((uint64_t)rate, rate_text);
	(void)snprintf(line, sizeof(line), "  %zu of %zu layers  %s of %s  %s/s", complete, p->len,
		done_text, size_text, rate_text);
	put_line(f, line);
}

/* All layers in their order. */
static void put_all(struct frame *f)
{
	char line[LINE_SIZE];

	for (size_t i = 0; i < f->p->len; i++) {
		format_layer(f, &f->p->layers[i], line);
		put_line(f, line);
	}
	put_conversion(f);
}

/* Finished lines for good, then as many of those in motion as there is room for, and the sum. */
static void put_flowing(struct frame *f)
{
	struct progress *p = f->p;
	size_t room = f->rows > 3 ? f->rows - 3 : 0;
	char line[LINE_SIZE];

	for (size_t i = 0; i < p->len; i++) {
		struct progress_layer *l = &p->layers[i];
		if (!progress_complete(l) || l->told)
			continue;
		l->told = true;
		format_layer(f, l, line);
		put_text(f->b, line, f->width);
	}
	for (size_t i = 0; i < p->len && p->lines < room; i++) {
		if (progress_complete(&p->layers[i]) || !p->layers[i].begun)
			continue;
		format_layer(f, &p->layers[i], line);
		put_line(f, line);
	}
	put_conversion(f);
	put_sum(f);
}

/* Lines above the cursor; a terminal that became narrower has wrapped them. */
static size_t lines_above(const struct frame *f)
{
	size_t columns = f->width + 1, n = 0;

	for (size_t i = 0; i < f->p->lines; i++)
		n += f->p->widths[i] == 0 ? 1 : (f->p->widths[i] + columns - 1) / columns;
	return n < f->rows ? n : f->rows - 1;
}

void progress_draw(struct progress *p, size_t columns, size_t rows, int64_t now_ms, struct buf *b)
{
	struct frame f = {.p = p,
		.b = b,
		.width = columns > 1 ? columns - 1 : 1,
		.rows = rows > 1 ? rows : 2,
		.now_ms = now_ms};
	size_t up = lines_above(&f);

	if (up > 0)
		buf_putf(b, "\033[%zuA", up);
	buf_putf(b, "\r");
	p->lines = 0;
	for (size_t i = 0; i < p->len; i++)
		if (!progress_complete(&p->layers[i]))
			progress_rate(&p->layers[i].rate, p->layers[i].done, now_ms);
	p->flows = p->flows || p->len + 2 > f.rows;
	if (p->flows)
		put_flowing(&f);
	else
		put_all(&f);
	buf_putf(b, "\033[J");
}
