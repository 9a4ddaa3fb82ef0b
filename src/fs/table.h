/* SPDX-License-Identifier: Apache-2.0 */
/* The table of proto/fs.h: to a file and back. What is read is checked like all from outside. */
#ifndef KOSA8_FS_TABLE_H
#define KOSA8_FS_TABLE_H

#include "../base/err.h"

struct fs;

int table_save(struct fs *fs, int fd) must_check;
/* Into a server that has served nothing yet. */
int table_restore(struct fs *fs, int fd, struct err *e) must_check;

#endif
