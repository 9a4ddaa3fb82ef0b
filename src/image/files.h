/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a saved image, by their names in the archive: a tar (plain, gzip, zstd), whose
 * regular files are copied under names of ours into a work folder, or a folder, which is read where
 * it is. Names are only compared, never used as paths of ours; links are followed by name inside
 * the archive.
 */
#ifndef KOSA8_IMAGE_FILES_H
#define KOSA8_IMAGE_FILES_H

#include "images.h"

#include "../base/buf.h"

#define FILES_MAX 4096

struct files_entry;
struct files {
	int dirfd; /* the folder; or the work folder, borrowed */
	bool is_folder;
	struct files_entry *entries; /* of a tar */
	size_t len;
};

/* path: a folder, a file, or "-" for stdin. */
int files_open(
	const char *path, const struct workdir *w, struct files *ret, struct err *e) must_check;
void files_release(struct files *f);
#define cleanup_files __attribute__((cleanup(files_release)))

/* A regular file, opened for reading: ERR_NOT_FOUND if there is none of that name. */
int files_open_one(const struct files *f, const char *name, struct err *e) must_check;
bool files_has(const struct files *f, const char *name);
/* Its content, at most max_bytes: ERR_LIMIT. ret is initialised here, released by the caller. */
int files_read(const struct files *f, const char *name, size_t max_bytes, struct buf *ret,
	struct err *e) must_check;

#endif
