/* SPDX-License-Identifier: Apache-2.0 */
/* A tree of files (proto/tree.h) as a tar and back, from one descriptor to another. */
#ifndef KOSA8_IMAGE_ARCHIVE_TREE_TAR_H
#define KOSA8_IMAGE_ARCHIVE_TREE_TAR_H

#include "../../base/err.h"

/*
 * kosa8-tar --to-tree | --from-tree NAME: started by kosa8 for `sandbox cp`, confined before it
 * reads its first byte. Reads stdin, writes stdout; when it fails it exits 1 and writes to
 * TREE_TAR_REPORT_FD the error as client_error_encode() has it.
 */
#define TREE_TAR_REPORT_FD 3

/* A tar, also compressed. The tree's root is a folder that stands for where it is unpacked. Names
 * are taken relative to it; one with ".." is refused. Devices and the like become TREE_SKIPPED. */
int tree_from_tar(int in, int out, struct err *e) must_check;
/* Members are name, name/...; for "." they are ./, ./... */
int tree_to_tar(int in, int out, const char *name, struct err *e) must_check;

#endif
