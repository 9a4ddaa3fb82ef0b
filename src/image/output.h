/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's side of stdout (worker.h): one JSON object a line. A write that fails is remembered
 * and ends the work at the next look at output_failed(): nobody is left to read the result. */
#ifndef KOSA8_IMAGE_OUTPUT_H
#define KOSA8_IMAGE_OUTPUT_H

#include "../base/json.h"

struct output {
	int fd;
	bool failed;
};

/* When a progress event may be sent again; zeroed at the start. */
struct output_pace {
	int64_t next_ms;
};

/* Writes the object and drops it; NULL (out of memory while it was made) counts as a failure. */
void output_take(struct output *o, json_t *object);
void output_notice(struct output *o, const char *fmt, ...) format_printf(2, 3);
/* What it waits for: progress rather than a notice. */
void output_waiting(struct output *o, const char *fmt, ...) format_printf(2, 3);
/* last: not held back by the pace. */
void output_layer(struct output *o, struct output_pace *p, const char *digest, uint64_t size,
	uint64_t done, bool last);
/* Before any of it is fetched: it is here already, or it waits. */
void output_layer_state(struct output *o, const char *digest, uint64_t size, bool here);
void output_convert(
	struct output *o, struct output_pace *p, uint64_t layer, uint64_t bytes, bool last);
/* {"ok":false,...} */
void output_error(struct output *o, const struct err *e);
static inline bool output_failed(const struct output *o)
{
	return o->failed;
}

#endif
