/* SPDX-License-Identifier: Apache-2.0 */
/* The progress of a pull, load or import on stderr: on a terminal one line a layer, rewritten in
 * place; elsewhere nothing. */
#ifndef KOSA8_CLI_PROGRESS_H
#define KOSA8_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROGRESS_LAYERS_MAX 128

struct progress_layer {
	char name[20];
	uint64_t size; /* 0: not known */
	uint64_t done;
};

struct progress {
	bool show;
	struct progress_layer layers[PROGRESS_LAYERS_MAX];
	size_t len;
	uint64_t converted;
	size_t lines; /* on the screen now */
	int64_t drawn_ms;
};

void progress_init(struct progress *p, bool quiet);
void progress_layer(struct progress *p, const char *digest, uint64_t size, uint64_t done);
void progress_convert(struct progress *p, uint64_t bytes);
/* A line that stays. */
void progress_notice(struct progress *p, const char *text);
/* The last state stays on the screen. */
void progress_end(struct progress *p);

#endif
