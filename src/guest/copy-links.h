/* SPDX-License-Identifier: Apache-2.0 */
/* Files of one tree that have several names: where each was seen first. Bounded: what does not fit
 * is forgotten, and then sent as a file of its own. */
#ifndef KOSA8_GUEST_COPY_LINKS_H
#define KOSA8_GUEST_COPY_LINKS_H

#include "../base/buf.h"

#include <sys/types.h>

#define COPY_LINKS_MAX (1u << 20)
#define COPY_LINKS_PATHS_MAX (64u << 20)

struct copy_link {
	dev_t dev;
	ino_t ino;
	size_t path; /* in `paths`; 0: free */
};
struct copy_links {
	struct copy_link *table;
	size_t size, used; /* size: 0 or a power of two */
	struct buf paths;
};

void copy_links_init(struct copy_links *l);
void copy_links_release(struct copy_links *l);
/* The path under which this file was noted first; NULL: it is noted now as `path`. */
const char *copy_links_note(struct copy_links *l, dev_t dev, ino_t ino, const char *path);

#endif
