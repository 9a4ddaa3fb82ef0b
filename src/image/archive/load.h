/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images from a file: what `docker save`, `podman save`, skopeo, umoci and buildkit write. An OCI
 * layout is preferred where an archive is both. An archive is loaded whole or not at all, but for
 * images of other platforms than the wanted one, which are passed over with a notice.
 */
#ifndef KOSA8_IMAGE_ARCHIVE_LOAD_H
#define KOSA8_IMAGE_ARCHIVE_LOAD_H

#include "files.h"
#include "../finish.h"
#include "keep.h"

#define LOAD_IMAGES_MAX 64
#define LOAD_NAMES_MAX 256
#define LOAD_DOCUMENTS_BYTES_MAX (64u * 1024 * 1024) /* manifests and configurations together */

/* path: a tar, a folder, or "-" for stdin. *ret: the worker's last line (worker.h). */
int load_images(const char *path, const struct platform *p, const struct images *images,
	struct claim *claim, json_t **ret, struct err *e) must_check;

/* ---- between load.c and the two kinds of archive ---- */

struct load_image {
	struct image image;
	char file[24]; /* the file system, in the work folder; "": in the store */
	uint64_t size;
};

struct load {
	struct documents documents; /* first: of an OCI layout, for resolve.h */
	const struct images *images;
	struct claim *claim;
	const struct platform *platform;
	struct workdir workdir;
	struct files files;
	struct keep keep;
	json_t *results;
	struct load_image made[LOAD_IMAGES_MAX];
	size_t made_len;
	size_t documents_bytes;
};

/* Takes a claimed image whose layers are all kept, and makes its file system unless it is there;
 * *ret is the one of that digest, which may have been made before. */
int load_make(struct load *l, struct image *image, const struct load_image **ret,
	struct err *e) must_check;
/* One name of it; NULL: none. */
int load_add_name(struct load *l, const struct load_image *made, const char *canonical,
	struct err *e) must_check;
/* The canonical form of a name as the archive has it, without a digest; NULL: it is none, or none
 * that an archive may give (there is a notice then). */
const char *load_name(const struct load *l, const struct load_image *made, const char *written,
	char ret[static REFERENCE_CANONICAL_SIZE]);
/* An image of another platform: remembers the first such error. */
void load_pass_over(struct load *l, const char *name, const struct err *why, struct err *first);

/* Of several images in an archive: says which one has the fault e. */
int load_blame(const char *name, size_t images, struct err *e) must_check;

/* load-layout.c, load-docker.c: all images of the archive. */
int load_layout(struct load *l, struct err *e) must_check;
int load_docker(struct load *l, struct err *e) must_check;

#endif
