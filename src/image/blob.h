/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One layer blob of a pull, as a sink (fetch.h): looked for, taken over, fetched, kept.
 *
 *   ABSENT   nothing is known yet; or it is busy, and was not waited for
 *   OURS     we hold the lock of partial/HEX (proto/images-dir.h) and may write it. What was in it
 *            is hashed and continued; should that turn out wrong in the end, it is fetched once
 *            more from the start
 *   PRIVATE  the same in the work folder, since the holder of partial/HEX does not get on
 *   HERE     complete, with size and digest right, and open for reading
 */
#ifndef KOSA8_IMAGE_BLOB_H
#define KOSA8_IMAGE_BLOB_H

#include "registry/fetch.h"
#include "images.h"
#include "manifest.h"

enum blob_state { BLOB_ABSENT, BLOB_OURS, BLOB_PRIVATE, BLOB_HERE };

struct blob {
	struct sink sink; /* first */
	const struct images *images;
	struct descriptor descriptor;
	char what[100]; /* "layer sha256:..." */
	enum blob_state state;
	int dirfd;	     /* where it is written, borrowed; under its hex digits */
	int fd;		     /* OURS, PRIVATE: what is written */
	int reader;	     /* HERE: read-only */
	uint64_t done;	     /* bytes that are there and hashed */
	struct sha256 *hash; /* of the first `done` bytes */
	bool fetched;	     /* HERE, and hashed by this pull */
	bool continued;	     /* some bytes are those of an earlier worker */
	bool announced;	     /* an event told of it before any of it came */
	bool told;	     /* HERE, and the event that says so was sent */
	struct output_pace pace;
};

void blob_init(struct blob *b, const struct images *i, const struct descriptor *d);
void blob_release(struct blob *b);

/* From ABSENT to HERE or OURS; stays ABSENT when another worker is at it. The blob is claimed. */
int blob_look(struct blob *b, struct err *e) must_check;
/* Stays ABSENT, but another look is worth it; or to PRIVATE, with w's folder, when the other worker
 * does not get on. Nothing else may be OURS meanwhile. */
int blob_wait(struct blob *b, const struct workdir *w, struct err *e) must_check;
/* Tells once that one is HERE. */
void blob_tell(struct blob *b);
/* HERE to ABSENT, when what was kept is damaged; true when it is. */
bool blob_drop_damaged(struct blob *b);

#endif
