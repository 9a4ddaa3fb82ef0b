/* SPDX-License-Identifier: Apache-2.0 */
/* A sink (fetch.h) that keeps a small body in memory and checks its size and digest. */
#ifndef KOSA8_IMAGE_REGISTRY_MEMORY_H
#define KOSA8_IMAGE_REGISTRY_MEMORY_H

#include "fetch.h"

struct memory {
	struct sink sink; /* first */
	struct buf body;
	const char *what;
	uint64_t expected;  /* 0: not known */
	const char *digest; /* "sha256:..." or NULL */
};

/* what and digest are borrowed. A body over max_bytes is refused: ERR_LIMIT. */
void memory_init(struct memory *m, const char *what, uint64_t expected_bytes, const char *digest,
	size_t max_bytes);
void memory_release(struct memory *m);
#define cleanup_memory __attribute__((cleanup(memory_release)))

#endif
