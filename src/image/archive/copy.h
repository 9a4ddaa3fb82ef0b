/* SPDX-License-Identifier: Apache-2.0 */
/* Content on its way into a work folder: hashed as it is written, so that what is kept is what was
 * hashed, whatever happens to its source meanwhile. */
#ifndef KOSA8_IMAGE_ARCHIVE_COPY_H
#define KOSA8_IMAGE_ARCHIVE_COPY_H

#include "../images.h"

#include "../../base/hash.h"

#include <stdint.h>

struct copied {
	char digest[REFERENCE_DIGEST_SIZE];
	uint64_t size;
};

/* A new file of the work folder that is being written. */
struct copy {
	const struct images *images;
	const char *what; /* for messages, borrowed */
	int fd;
	struct sha256 *hash;
	uint64_t size;
};
#define COPY_NONE        \
	{                \
		.fd = -1 \
	}
int copy_begin(const struct workdir *w, const char *name, const char *what, struct copy *ret,
	struct err *e) must_check;
int copy_write(struct copy *c, const void *data, size_t len, struct err *e) must_check;
void copy_end(struct copy *c, struct copied *ret);
void copy_release(struct copy *c);
#define cleanup_copy __attribute__((cleanup(copy_release)))

/* All that fd has from here on, at most max_bytes (ERR_LIMIT). A whole regular file is cloned where
 * the file system can do that. */
int copy_all(const struct workdir *w, int fd, const char *name, const char *what,
	uint64_t max_bytes, struct copied *ret, struct err *e) must_check;

#endif
