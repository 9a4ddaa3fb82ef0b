/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include "output.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define REDRAW_MS 100
#define SAY_MS 10000
#define RATE_MS 500
#define SHORT_DIGEST 12
#define FRAME_MAX (64u * 1024)

static bool can_move(void)
{
	const char *term = getenv("TERM");

	return output_progress() && term && *term && strcmp(term, "dumb") != 0;
}

void progress_init(struct progress *p, enum progress_mode mode)
{
	*p = (struct progress){.mode = mode,
		.quiet = mode == PROGRESS_NONE,
		.moves = mode != PROGRESS_NONE && can_move()};
	if (mode == PROGRESS_TERMINAL && !p->moves)
		p->mode = PROGRESS_NONE;
}

static void draw(struct progress *p, bool now)
{
	cleanup_buf struct buf b = {0};
	struct winsize size = {0};
	int64_t ms = clock_mono_ms();

	if (!p->moves || (!now && ms - p->drawn_ms < REDRAW_MS))
		return;
	p->drawn_ms = ms;
	buf_init(&b, FRAME_MAX);
	(void)ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
	progress_draw(p, size.ws_col ? size.ws_col : 80, size.ws_row ? size.ws_row : 24, ms, &b);
	/* In one write, so that nobody else's line gets between. */
	if (!buf_failed(&b))
		(void)!fd_write_all(STDERR_FILENO, b.data, b.len);
}

void progress_rate(struct progress_rate *r, uint64_t bytes, int64_t now_ms)
{
	int64_t passed = now_ms - r->when_ms;

	if (r->when_ms == 0 || bytes < r->at) {
		*r = (struct progress_rate){.at = bytes, .when_ms = now_ms};
		return;
	}
	if (passed < (r->per_s > 0 ? RATE_MS : REDRAW_MS))
		return;
	double per_s = (double)(bytes - r->at) * 1000.0 / (double)passed;
	r->per_s = r->per_s > 0 ? 0.6 * r->per_s + 0.4 * per_s : per_s;
	r->at = bytes;
	r->when_ms = now_ms;
}

static struct progress_layer *find_layer(struct progress *p, const char *digest, uint64_t done)
{
	char name[sizeof(p->layers[0].name)];

	(void)snprintf(name, sizeof(name), "%.*s", SHORT_DIGEST, strchr(digest, ':') + 1);
	for (size_t i = 0; i < p->len; i++)
		if (strcmp(p->layers[i].name, name) == 0)
			return &p->layers[i];
	if (p->len == PROGRESS_LAYERS_MAX)
		return NULL;
	struct progress_layer *l = &p->layers[p->len++];
	*l = (struct progress_layer){
		.told_ms = clock_mono_ms(), .rate = {.at = done, .when_ms = clock_mono_ms()}};
	memcpy(l->name, name, sizeof(name));
	return l;
}

/* A line about the layer, where nothing can be rewritten. */
static void say(struct progress_layer *l)
{
	char done[TEXT_SIZE_MAX], size[TEXT_SIZE_MAX];
	int64_t now = clock_mono_ms();

	text_size(l->done, done);
	text_size(l->size, size);
	if (l->told || (!progress_complete(l) && (!l->begun || now - l->told_ms < SAY_MS)))
		return;
	l->told_ms = now;
	l->told = progress_complete(l);
	if (l->told)
		output_notice("layer %s: %s%s", l->name, size, l->here ? ", already here" : "");
	else
		output_notice("layer %s: %s of %s", l->name, done, l->size ? size : "?");
}

void progress_layer(struct progress *p, const char *digest, uint64_t size, uint64_t done, bool here)
{
	struct progress_layer *l = p->mode == PROGRESS_NONE ? NULL : find_layer(p, digest, done);

	if (!l)
		return;
	bool was_complete = progress_complete(l);
	l->size = size;
	l->done = done;
	l->here = here;
	l->begun = l->begun || done > 0;
	progress_rate(&l->rate, done, clock_mono_ms());
	if (p->moves)
		draw(p, !was_complete && progress_complete(l));
	else
		say(l);
}

void progress_convert(struct progress *p, uint64_t layer, uint64_t bytes)
{
	if (layer != p->convert_layer) {
		p->converted += p->converting;
		p->convert_layer = layer;
	}
	p->converting = bytes;
	progress_rate(&p->rate, p->converted + bytes, clock_mono_ms());
	draw(p, false);
}

void progress_notice(struct progress *p, const char *text)
{
	if (p->moves && p->lines > 0)
		(void)fprintf(stderr, "\033[%zuA\r\033[J", p->lines);
	p->lines = 0;
	output_notice("%s", text);
	(void)fflush(stderr);
	if (p->len > 0)
		draw(p, true);
}

void progress_tick(struct progress *p)
{
	if (p->len > 0 || p->rate.when_ms)
		draw(p, false);
}

void progress_end(struct progress *p, bool ok)
{
	char size[TEXT_SIZE_MAX];

	p->ended = ok;
	if (p->moves && (p->len > 0 || p->rate.when_ms)) {
		draw(p, true);
	} else if (p->mode == PROGRESS_LINES && ok && p->rate.when_ms) {
		text_size(p->converted + p->converting, size);
		output_notice("unpacked %s", size);
	}
}
