/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kosa8-image at work for a command (src/image/worker.h says what it does and what it says). It
 * ends with this process. What it says is checked here before it gets anywhere.
 */
#ifndef KOSA8_CLI_IMAGE_WORKER_H
#define KOSA8_CLI_IMAGE_WORKER_H

#include "context.h"
#include "progress.h"

#include "../proto/reference.h"

#include <signal.h>
#include <sys/types.h>

#define IMAGE_BLOBS_MAX 256

struct image_got {
	char digest[REFERENCE_DIGEST_SIZE];
	char *ref; /* as the worker said; NULL: none */
	char *config;
	char platform[64]; /* "linux/amd64" */
	uint64_t size_bytes;
	bool cached; /* it was there already */
	struct image_blob *blobs;
	size_t blobs_len;
};
struct image_gots {
	struct image_got *items;
	size_t len;
	json_t *result; /* the last line itself */
};
void image_gots_release(struct image_gots *g);
#define cleanup_image_gots __attribute__((cleanup(image_gots_release)))

struct image_work {
	const char *verb;
	char *const *args; /* flags and operands */
	int output;	   /* becomes descriptor 3; -1: none */
	bool hold;	   /* it keeps its claim until image_worker_dismiss() */
	enum progress_mode progress;
};

struct image_worker {
	pid_t pid; /* 0: none */
	int in;
	int signal_fd;
	sigset_t mask; /* as it was before */
	bool masked;
};
#define cleanup_image_worker __attribute__((cleanup(image_worker_release)))

/* Runs it with this process's stdin until its last line; SIGINT, SIGTERM and SIGHUP are held back
 * until the release. Interrupted by one of them: ERR_CANCELLED, and image_worker_status() is the
 * exit status. */
int image_worker_run(struct image_worker *w, const struct context *c, const struct image_work *work,
	struct image_gots *ret, struct err *e) must_check;
/* Lets it go, and waits for its end. Whoever puts its images into the catalog does so under the
 * same lock: what another removes afterwards is then in nobody's claim any more. */
void image_worker_dismiss(struct image_worker *w);
/* The same, and signals arrive again. Accepts a zeroed one. */
void image_worker_release(struct image_worker *w);
/* What a command returns for r, which is a failure with *e: the exit status after an interruption
 * (*e is told then), else r. */
int image_worker_status(int r, const struct err *e) must_check;

/* One line of its output: 1 when it was the last one (*ret is filled), 0 for progress. */
int image_worker_line(const char *line, size_t len, struct progress *p, struct image_gots *ret,
	struct err *e) must_check;

#endif
