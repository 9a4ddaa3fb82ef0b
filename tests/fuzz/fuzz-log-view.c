/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a container, as `sandbox logs` shows what a guest sent. The first two bytes choose the
 * flags and the pieces in which it comes; the same must be shown whatever the pieces. */
#include "cli/log-view.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct shown {
	struct buf out, err;
	int r;
};

/* What a sink holds goes to b. */
static void drain(struct sink *s, struct buf *b)
{
	buf_put(b, s->data.data + s->at, sink_pending(s));
	if (sink_pending(s) > SINK_WINDOW)
		abort();
	s->at = s->data.len;
}

static int pump(struct log_view *v, struct sink sinks[2], struct shown *ret, bool ended)
{
	int r;

	/* With room there is always progress, so this ends. */
	do {
		r = log_view_pump(v, &sinks[0], &sinks[1], ended);
		size_t moved = sink_pending(&sinks[0]) + sink_pending(&sinks[1]);
		drain(&sinks[0], &ret->out);
		drain(&sinks[1], &ret->err);
		if (moved == 0 && !ended)
			return r < 0 ? r : 0;
	} while (r > 0);
	return r;
}

static void show(const uint8_t *data, size_t size, uint8_t flags, size_t piece, struct shown *ret)
{
	struct log_view v;
	struct sink sinks[2];
	int r = 0;

	buf_init(&ret->out, 64 << 20);
	buf_init(&ret->err, 64 << 20);
	sink_init(&sinks[0], -1);
	sink_init(&sinks[1], -1);
	log_view_init(&v, flags & 2 ? flags >> 2 : LOG_VIEW_ALL, flags & 1);
	for (size_t at = 0; r >= 0 && at < size;) {
		size_t n = size - at < piece ? size - at : piece;
		(void)log_view_grant(&v);
		if (n > v.window)
			abort(); /* all was shown before */
		if (log_view_put(&v, data + at, n) < 0)
			abort();
		r = pump(&v, sinks, ret, false);
		at += n;
	}
	ret->r = r < 0 ? r : pump(&v, sinks, ret, true);
	log_view_release(&v);
	sink_release(&sinks[0]);
	sink_release(&sinks[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct shown a, b;

	if (size < 2 || size > 100000)
		return 0;
	show(data + 2, size - 2, data[0], data[1] + 1u, &a);
	show(data + 2, size - 2, data[0], size, &b);
	/* An error may come before or after what a piece showed. */
	if (a.r != b.r)
		abort();
	if (a.r == 0 && (a.out.len != b.out.len || a.err.len != b.err.len ||
				memcmp(a.out.data ? a.out.data : data,
					b.out.data ? b.out.data : data, a.out.len) != 0))
		abort();
	buf_release(&a.out);
	buf_release(&a.err);
	buf_release(&b.out);
	buf_release(&b.err);
	return 0;
}
