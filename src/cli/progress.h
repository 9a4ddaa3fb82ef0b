/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress of a pull, load or import, on stderr.
 *
 * On a terminal: a line a layer and one for the conversion, rewritten in place, fitted to the
 * terminal's width at each draw. When there are more layers than rows, finished lines scroll away
 * above, and below stand those in motion with a sum. No mode of the terminal is changed and the
 * cursor is never hidden, so there is nothing to restore, however the process ends.
 *
 * Elsewhere, and where TERM is dumb or not set: plain lines; one when a layer is complete, at most
 * one in 10 s for a layer on its way, one for the conversion.
 */
#ifndef KOSA8_CLI_PROGRESS_H
#define KOSA8_CLI_PROGRESS_H

#include "../base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROGRESS_LAYERS_MAX 128
#define PROGRESS_LINES_MAX (PROGRESS_LAYERS_MAX + 2)

enum progress_mode {
	PROGRESS_NONE,
	PROGRESS_TERMINAL, /* on a terminal only */
	PROGRESS_LINES,	   /* elsewhere plain lines */
};

struct progress_rate {
	uint64_t at; /* bytes, when */
	int64_t when_ms;
	double per_s;
};

struct progress_layer {
	char name[16];
	uint64_t size; /* 0: not known */
	uint64_t done;
	bool here;  /* it was here before */
	bool begun; /* some of it came */
	bool told;  /* its line stands for good */
	int64_t told_ms;
	struct progress_rate rate;
};

struct progress {
	enum progress_mode mode; /* as it turned out */
	bool moves;		 /* on a terminal */
	bool quiet;		 /* none was wanted */
	struct progress_layer layers[PROGRESS_LAYERS_MAX];
	size_t len;
	uint64_t converted; /* bytes of layers that are done, and of the one at work */
	uint64_t converting;
	uint64_t convert_layer;
	struct progress_rate rate;
	bool ended;
	bool flows;			     /* more layers than rows */
	uint16_t widths[PROGRESS_LINES_MAX]; /* of the lines on the screen that will be rewritten */
	size_t lines;
	int64_t drawn_ms;
};

void progress_init(struct progress *p, enum progress_mode mode);
/* digest is one. here: none of it had to be fetched. */
void progress_layer(
	struct progress *p, const char *digest, uint64_t size, uint64_t done, bool here);
void progress_convert(struct progress *p, uint64_t layer, uint64_t bytes);
/* A line that stays. */
void progress_notice(struct progress *p, const char *text);
/* Whether progress_tick() is to be called while nothing happens. */
static inline bool progress_moves(const struct progress *p)
{
	return p->moves;
}
void progress_tick(struct progress *p);
/* The last state stays on the screen. */
void progress_end(struct progress *p, bool ok);

/* What a draw writes to a terminal of this size (progress-draw.c). */
void progress_draw(struct progress *p, size_t columns, size_t rows, int64_t now_ms, struct buf *b);
/* All of it is here, whether it came now or before. */
static inline bool progress_complete(const struct progress_layer *l)
{
	return l->here || l->done >= l->size;
}
/* Takes in how many bytes there are now; per_s is a moving average. */
void progress_rate(struct progress_rate *r, uint64_t bytes, int64_t now_ms);

#endif
