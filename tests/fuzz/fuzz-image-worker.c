/* SPDX-License-Identifier: Apache-2.0 */
/* A line of kosa8-image's output, as the command line reads it. */
#include "cli/image-worker.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_got(const struct image_got *g)
{
	if (!reference_is_digest(g->digest) || !g->config || !*g->platform ||
		g->blobs_len > IMAGE_BLOBS_MAX)
		abort();
	for (size_t i = 0; i < g->blobs_len; i++)
		if (!reference_is_digest(g->blobs[i].digest) || g->blobs[i].size_bytes > INT64_MAX)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image_gots gots = {0};
	struct progress p;
	struct buf frame;
	struct err e;

	/* As on a terminal, but drawn here. */
	progress_init(&p, PROGRESS_NONE);
	p.mode = PROGRESS_LINES;
	p.moves = true;
	p.drawn_ms = INT64_MAX / 2;
	int r = image_worker_line((const char *)data, size, &p, &gots, &e);
	if (r < 0 && e.kind == ERR_NONE)
		abort();
	for (size_t i = 0; i < gots.len; i++)
		check_got(&gots.items[i]);
	buf_init(&frame, 64 * 1024);
	progress_draw(&p, size % 100, size % 30, 1, &frame);
	if (buf_failed(&frame))
		abort();
	buf_release(&frame);
	image_gots_release(&gots);
	return 0;
}
