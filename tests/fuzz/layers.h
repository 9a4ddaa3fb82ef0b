/* SPDX-License-Identifier: Apache-2.0 */
/* An input of fuzz-tar-tree and fuzz-squash: layers, each after its 32-bit length. */
#ifndef KOSA8_FUZZ_LAYERS_H
#define KOSA8_FUZZ_LAYERS_H

#include "base/cursor.h"
#include "base/fd.h"
#include "image/unpack/tar.h"

#include "repair.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LAYERS_MAX 4
#define LAYERS_LIMITS                                                    \
	{                                                                \
		.entries = 5000, .total_bytes = 16u << 20, .ratio = 200, \
		.ratio_after_bytes = 1u << 20                            \
	}

static int apply_layer(struct tree *t, unsigned char *layer, size_t len,
	const struct tar_sink *sink, struct tar_totals *totals)
{
	const struct tar_options o = {.sink = *sink};
	cleanup_fd int fd = memfd_create("layer", MFD_CLOEXEC);
	char digest[SHA256_HEX_SIZE];
	struct err e = {0};

	repair(layer, len);
	if (fd < 0 || fd_write_all(fd, layer, len) < 0)
		abort();
	int r = tar_apply(fd, t, &o, totals, digest, &e);
	assert(r == 0 || (r < 0 && e.kind != ERR_NONE && e.kind != ERR_INTERNAL));
	return r;
}

/* Until one is refused: false. */
static bool apply_layers(
	struct tree *t, const struct tar_sink *sink, const uint8_t *data, size_t size)
{
	struct tar_totals totals = {0};
	struct cursor c;
	int r = 0;

	cursor_init(&c, data, size);
	for (int i = 0; r == 0 && i < LAYERS_MAX && c.left > 0; i++) {
		size_t len = cursor_u32(&c);
		if (len > c.left)
			len = c.left;
		const unsigned char *from = cursor_bytes(&c, len);
		if (!from)
			break;
		unsigned char *layer = malloc(len + 1);
		if (!layer)
			abort();
		memcpy(layer, from, len);
		r = apply_layer(t, layer, len, sink, &totals);
		free(layer);
	}
	return r == 0;
}

#endif
