/* SPDX-License-Identifier: Apache-2.0 */
/* Images of this host: finding them by what was typed, putting what the worker made into the
 * catalog, pulling. */
#ifndef KOSA8_CLI_IMAGES_H
#define KOSA8_CLI_IMAGES_H

#include "image-worker.h"

/* What was typed: a name, a digest, or the beginning of one (at least 6 hex digits, with or without
 * "sha256:"). ERR_INVALID: it is one image's name and the beginning of another's digest.
 * ERR_NOT_FOUND: ret_ref is parsed then; registry "" when it was found by its digest or is no name.
 */
int image_find(const struct context *c, const char *text, struct image_row *ret,
	struct reference *ret_ref, struct err *e) must_check;
/* ERR_INCOMPATIBLE unless this machine runs programs of the image's platform. */
int image_check_platform(const struct image_row *row, const char *text, struct err *e) must_check;

/* Checks that the files are there and puts the image into the catalog; ref may be NULL. The caller
 * holds image_lock(). */
int image_put(const struct context *c, const struct image_got *got, const char *ref,
	struct err *e) must_check;
/* Takes the lock and sweeps; what cannot be removed is for the next time. Done after a failure, and
 * after what was slow anyway, so that leftovers of killed workers do not wait for a prune. */
void image_sweep_quietly(const struct context *c);

struct image_pull {
	const char *text;	   /* as typed */
	const struct sandbox *box; /* that is to use it; NULL: none */
	const char *platform;	   /* NULL: this machine's */
	bool plain_http;
	bool quiet;
	enum progress_mode progress;
};
/* Pulls, records it as image.pull, and notes that the sandbox uses it. What is known by its digest
 * needs no registry. */
int image_pull(struct context *c, const struct image_pull *p,
	char ret_digest[static REFERENCE_DIGEST_SIZE], struct err *e) must_check;

/* --platform, --plain-http and --quiet. */
struct args;
void image_pull_flags(const struct args *a, struct image_pull *p);

/* Manifest and configuration of the image as they were published, and checked as far as used here:
 * both objects. The caller drops them. */
int image_show(const struct context *c, const char *digest, json_t **ret_manifest,
	json_t **ret_config, struct err *e) must_check;
/* [{"digest","size","media_type","diff_id"}], lowest first; what the documents do not give is null.
 * NULL: out of memory. */
json_t *image_layers(const json_t *manifest, const json_t *config);

/* The table or the JSON of `image ls` and `sandbox images`. */
int image_rows_print(const struct image_rows *rows, bool json, struct err *e) must_check;

#endif
