/* SPDX-License-Identifier: Apache-2.0 */
#include "copy-progress.h"

#include "output.h"

#include "../base/clock.h"
#include "../base/text.h"

#include <inttypes.h>

void copy_progress_init(struct copy_progress *p, bool quiet)
{
	/* As for a pull: not where a terminal cannot rewrite a line. */
	struct progress shared;

	progress_init(&shared, quiet ? PROGRESS_NONE : PROGRESS_TERMINAL);
	*p = (struct copy_progress){.moves = progress_moves(&shared), .drawn_ms = clock_mono_ms()};
}

void copy_progress_at(struct copy_progress *p, uint64_t bytes, uint64_t entries)
{
	char done[TEXT_SIZE_MAX], rate[TEXT_SIZE_MAX];
	int64_t now = p->moves ? clock_mono_ms() : 0;

	if (!p->moves || now - p->drawn_ms < COPY_TICK_MS)
		return;
	p->drawn_ms = now;
	progress_rate(&p->rate, bytes, now);
	text_size(bytes, done);
	text_size((uint64_t)p->rate.per_s, rate);
	(void)fprintf(stderr, "\r%s, %" PRIu64 " %s, %s/s\033[K", done, entries,
		entries == 1 ? "entry" : "entries", rate);
	(void)fflush(stderr);
	p->drawn = true;
}

void copy_progress_clear(struct copy_progress *p)
{
	if (!p->drawn)
		return;
	(void)fprintf(stderr, "\r\033[K");
	(void)fflush(stderr);
	p->drawn = false;
}
