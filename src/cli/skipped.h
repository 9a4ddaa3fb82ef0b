/* SPDX-License-Identifier: Apache-2.0 */
/* What is said about devices, sockets and pipes that are not copied: the first few by name. */
#ifndef KOSA8_CLI_SKIPPED_H
#define KOSA8_CLI_SKIPPED_H

#include "copy-progress.h"
#include "output.h"

#define SKIPPED_SHOWN 10

struct skipped {
	uint64_t count;
	struct copy_progress *progress; /* whose line is in the way; may be NULL */
};

static inline void skipped_add(struct skipped *s, const char *path)
{
	if (s->count < SKIPPED_SHOWN && s->progress)
		copy_progress_clear(s->progress);
	if (s->count++ < SKIPPED_SHOWN)
		output_notice("skipped %.512s: it is no file, folder or link", *path ? path : ".");
}

static inline void skipped_end(const struct skipped *s)
{
	if (s->count > SKIPPED_SHOWN)
		output_notice("skipped %llu more of the kind",
			(unsigned long long)(s->count - SKIPPED_SHOWN));
}

#endif
