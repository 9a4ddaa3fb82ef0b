/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One layer blob on its way into a work folder, as a sink (fetch.h). It is written to
 * sha256-HEX.part and hashed on the way; at the end, with size and digest right, it is renamed to
 * sha256-HEX. A .part that was found there is hashed and continued; if that turns out wrong in the
 * end, the blob is fetched once more from the start.
 */
#ifndef KOSA8_IMAGE_BLOB_H
#define KOSA8_IMAGE_BLOB_H

#include "fetch.h"
#include "images.h"
#include "manifest.h"

struct blob {
	struct sink sink; /* first */
	const struct workdir *workdir;
	struct descriptor descriptor;
	char part[80], final[80]; /* file names */
	char what[100];		  /* "layer sha256:..." */
	int fd;			  /* of the .part */
	uint64_t done;
	struct sha256 *hash; /* of the first `done` bytes */
	bool complete;
	bool continued; /* some bytes are those of an earlier worker */
	struct output_pace pace;
};

/* Looks at what is there; complete is set when nothing needs to be fetched. */
int blob_init(struct blob *b, const struct workdir *w, const struct descriptor *d,
	struct err *e) must_check;
void blob_release(struct blob *b);
/* The complete blob, opened for reading. */
int blob_open(const struct blob *b, struct err *e) must_check;

#endif
