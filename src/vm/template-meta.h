/* SPDX-License-Identifier: Apache-2.0 */
/* templates/KEY/meta.json, and whether a template's files are still those it was made with. */
#ifndef KOSA8_VM_TEMPLATE_META_H
#define KOSA8_VM_TEMPLATE_META_H

#include "template.h"

#include "../base/hash.h"

#include <stdbool.h>

/* The hash over a sparse file's content: its size, and offset and bytes of each 4096-byte block
 * that is not all zero. Holes cost nothing. */
int sparse_hash(int fd, char ret[static SHA256_HEX_SIZE], struct err *e) must_check;

/* Writes meta.json for the files that are in dirfd. */
int template_meta_write(int dirfd, const char *key, const struct vm_host *host,
	const struct vm_config *config, struct err *e) must_check;

/* Reads it and checks the files: by identity (inode, size, mtime, ctime), and when that differs, as
 * after a restored backup, by their hashes; then the identity is written anew. Fills in all of
 * ret but dirfd. ERR_CORRUPT. */
int template_meta_check(
	int dirfd, const char *key, struct vm_template *ret, struct err *e) must_check;

#endif
