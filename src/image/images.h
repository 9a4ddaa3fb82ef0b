/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The images' folder (proto/images-dir.h): what is there, and the folders that workers fill. A work
 * folder whose lock is free was left by a worker that died.
 */
#ifndef KOSA8_IMAGE_IMAGES_H
#define KOSA8_IMAGE_IMAGES_H

#include "output.h"

#include "../proto/reference.h"

struct images {
	int dirfd, blobsfd, partialfd, workfd, claimsfd;
	char *path;
	struct output *output;
};

/* dir must exist. */
int images_open(
	const char *dir, struct output *output, struct images *ret, struct err *e) must_check;
void images_release(struct images *i);
#define cleanup_images __attribute__((cleanup(images_release)))
#define IMAGES_NONE                                                                       \
	{                                                                                 \
		.dirfd = -1, .blobsfd = -1, .partialfd = -1, .workfd = -1, .claimsfd = -1 \
	}

/* The size of the finished image; 0: there is none. */
int images_find(
	const struct images *i, const char *digest, uint64_t *ret_size, struct err *e) must_check;
/* ERR_NO_SPACE, naming what is needed for and what is free. */
int images_check_space(
	const struct images *i, uint64_t needed, const char *what_for, struct err *e) must_check;
/* Turns ENOSPC while writing into that error: how much was needed is known to the caller. */
int images_write_error(
	const struct images *i, int errnum, const char *what, struct err *e) must_check;

struct workdir {
	const struct images *images;
	int fd; /* holds the lock */
	char name[80];
};

/* name: that of the worker's claim; what a killed worker left in it goes. NULL: a random one.
 * Sweeps the others. */
int workdir_open(
	const struct images *i, const char *name, struct workdir *ret, struct err *e) must_check;
/* Removes it with all that is in it. A zeroed one (fd -1) is accepted. */
void workdir_remove(struct workdir *w);
#define WORKDIR_NONE     \
	{                \
		.fd = -1 \
	}
#define cleanup_workdir __attribute__((cleanup(workdir_remove)))

/* Removes the work folders of workers that died. */
void images_sweep(const struct images *i);
/* A finished file of the work folder becomes HEX.sqfs, on disk for sure. */
int images_publish(
	const struct workdir *w, const char *name, const char *digest, struct err *e) must_check;

#endif
