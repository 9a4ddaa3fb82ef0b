/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the documents of one pull come from: what is kept here under a digest is not asked for
 * again; the registry is asked for the rest, and spoken to only when there is a rest. A name with a
 * tag costs one request at least; where something is kept that it may lead to, that is a HEAD,
 * which registries do not count against their limits. The digest in its answer is only a key to
 * what was checked when it was kept.
 *
 * Before the first byte is exchanged, the credentials of all hosts that may be asked are in memory
 * and the process is confined for the rest of its life (confine-client.h). For a name with a digest
 * whose document is kept that is done before the document is read; unless it would take a
 * credential helper, which is not started in vain: then when there is something to ask for.
 */
#ifndef KOSA8_IMAGE_SOURCE_H
#define KOSA8_IMAGE_SOURCE_H

#include "registry/registry.h"

struct source {
	struct documents documents; /* first: for resolve.h */
	const struct images *images;
	struct reference ref;
	char name[REFERENCE_CANONICAL_SIZE];
	bool confined, opened;
	struct registry registry;
};

int source_init(struct source *s, const char *ref, bool plain_http, const struct images *i,
	struct err *e) must_check;
void source_release(struct source *s);
#define cleanup_source __attribute__((cleanup(source_release)))

/* The registry, opened at the first call: the process must have one thread then. */
int source_registry(struct source *s, struct registry **ret, struct err *e) must_check;
/* From the name to the platform's image. */
int source_resolve(
	struct source *s, const struct platform *p, struct image *ret, struct err *e) must_check;

#endif
