/* SPDX-License-Identifier: Apache-2.0 */
/* Files by device and inode number: which were sent already, which were made here. */
#ifndef KOSA8_CLI_INODE_TABLE_H
#define KOSA8_CLI_INODE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct inode_slot {
	dev_t dev;
	ino_t ino;
	bool used;
	char *path; /* owned; may be NULL */
};

struct inode_table {
	struct inode_slot *slots;
	size_t len, cap; /* cap: 0 or a power of two */
};

void inode_table_release(struct inode_table *t);
/* NULL: not there. Valid until the next add. */
const struct inode_slot *inode_table_find(const struct inode_table *t, const struct stat *st);
/* With a copy of path (may be NULL); one that is there stays as it is. 0 or -ENOMEM. */
int inode_table_add(struct inode_table *t, const struct stat *st, const char *path)
	__attribute__((warn_unused_result));

#endif
