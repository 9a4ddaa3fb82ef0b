/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images on this host. The work is done by kosa8-image, which tells about it in JSON lines on its
 * stdout; what it says is checked here before it gets into the catalog. It ends with this process.
 */
#ifndef KOSA8_CLI_IMAGES_H
#define KOSA8_CLI_IMAGES_H

#include "context.h"

#include "../proto/reference.h"

struct image_got {
	char digest[REFERENCE_DIGEST_SIZE];
	char *ref; /* as the worker said; NULL: none */
	char *config;
	uint64_t size_bytes;
	bool cached; /* it was there already */
};
struct image_gots {
	struct image_got *items;
	size_t len;
};
void image_gots_release(struct image_gots *g);
#define cleanup_image_gots __attribute__((cleanup(image_gots_release)))

/* Runs kosa8-image VERB --images-dir DIR OPERAND with this process's stdin. */
int image_worker_run(const struct context *c, const char *verb, const char *operand, bool quiet,
	struct image_gots *ret, struct err *e) must_check;
/* One line of its output: 1 when it was the last one (*ret is filled), 0 for progress. */
struct progress;
int image_worker_line(const char *line, size_t len, struct progress *p, struct image_gots *ret,
	struct err *e) must_check;
/* Checks that the file is there and puts it into the catalog; ref may be NULL. */
int image_put(const struct context *c, const struct image_got *got, const char *ref,
	struct err *e) must_check;

/* An image's name or digest as typed, in the catalog. ERR_NOT_FOUND; ret_ref is parsed then. */
int image_find(const struct context *c, const char *text, struct image_row *ret,
	struct reference *ret_ref, struct err *e) must_check;
/* Pulls, records it as image.pull, and notes that the sandbox uses it. */
int image_pull(struct context *c, const struct sandbox *s, const struct reference *ref, bool quiet,
	char ret_digest[static REFERENCE_DIGEST_SIZE], struct err *e) must_check;
/* The table or the JSON of `image ls` and `sandbox images`. */
int image_rows_print(const struct image_rows *rows, bool json, struct err *e) must_check;

#endif
