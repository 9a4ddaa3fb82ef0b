/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a saved image, by their names in the archive: a tar (plain, gzip, zstd), whose
 * regular files are copied under names of ours into a work folder, or a folder, of which each file
 * is copied when it is first asked for. Either way a member is hashed while it is copied, and does
 * not change any more.
 *
 * Names in a tar are only compared, never used as paths of ours; links are followed by name inside
 * the archive. In a folder they are followed as far as they stay inside (openat2(2),
 * RESOLVE_BENEATH).
 */
#ifndef KOSA8_IMAGE_ARCHIVE_FILES_H
#define KOSA8_IMAGE_ARCHIVE_FILES_H

#include "copy.h"

#include "../../base/buf.h"

#define FILES_MAX 32768 /* entries of a tar, of any type */
#define FILES_FILE_SIZE 24

struct files_entry;
struct files {
	const struct workdir *workdir;
	int dirfd;		     /* the folder; -1: a tar */
	struct files_entry *entries; /* of a folder: what was asked for */
	size_t len;
};

/* A file of the work folder. */
struct member {
	char file[FILES_FILE_SIZE];
	struct copied content;
};

/* path: a folder, a file, or "-" for stdin. */
int files_open(
	const char *path, const struct workdir *w, struct files *ret, struct err *e) must_check;
/* A tar, all of it: its files together at most max_bytes. */
int files_read_tar(int fd, const struct workdir *w, uint64_t max_bytes, struct files *ret,
	struct err *e) must_check;
void files_release(struct files *f);
#define cleanup_files __attribute__((cleanup(files_release)))
#define FILES_NONE          \
	{                   \
		.dirfd = -1 \
	}

bool files_has(const struct files *f, const char *name);
/* A regular file of at most max_bytes (ERR_LIMIT); ERR_NOT_FOUND. */
int files_member(struct files *f, const char *name, uint64_t max_bytes, struct member *ret,
	struct err *e) must_check;
/* Opened for reading. */
int files_open_member(const struct files *f, const struct member *m, struct err *e) must_check;
/* Content of at most max_bytes: ERR_LIMIT. ret is initialised here, released by the caller also on
 * failure. ret_member may be NULL. */
int files_read(struct files *f, const char *name, size_t max_bytes, struct buf *ret,
	struct member *ret_member, struct err *e) must_check;

#endif
