/* SPDX-License-Identifier: Apache-2.0 */
/* The progress of a copy: one line on stderr, rewritten in place, on a terminal only. */
#ifndef KOSA8_CLI_COPY_PROGRESS_H
#define KOSA8_CLI_COPY_PROGRESS_H

#include "progress.h"

#define COPY_TICK_MS 250

struct copy_progress {
	bool moves;
	bool drawn;
	int64_t drawn_ms;
	struct progress_rate rate;
};

void copy_progress_init(struct copy_progress *p, bool quiet);
/* Draws when it is time to. */
void copy_progress_at(struct copy_progress *p, uint64_t bytes, uint64_t entries);
/* The line goes, so that something else can be written. */
void copy_progress_clear(struct copy_progress *p);

#endif
