/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One FUSE connection: the descriptor of /dev/fuse behind one mount, and which of its requests are
 * out (kernel: Documentation/filesystems/fuse.rst; messages: linux/fuse.h). Messages are passed on
 * as they are; only their headers are looked at.
 *
 * At most FS_REQUESTS_MAX requests are out: beyond it nothing is read, and the programs wait in the
 * kernel. INIT is kept until it is answered, so that it can go to another server when the epoch
 * changes; all else that is out then fails with EIO (fuse_conn_fail()), since the server may have
 * done it or not.
 */
#ifndef KOSA8_GUEST_FUSE_CONN_H
#define KOSA8_GUEST_FUSE_CONN_H

#include "../base/err.h"
#include "../proto/fs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What a read of /dev/fuse needs room for: the largest WRITE and its headers. */
#define FUSE_CONN_READ_SIZE (FS_DATA_MAX + 4096)
#define FUSE_CONN_INIT_MAX 256

struct fuse_conn {
	uint32_t id; /* 0: not in use */
	bool cow;
	int fd;
	bool readable;
	bool ready; /* INIT was answered */
	size_t out_len;
	uint64_t out[FS_REQUESTS_MAX]; /* `unique` of each */
	size_t init_len;
	unsigned char init[FUSE_CONN_INIT_MAX];
};

/* Opens /dev/fuse and mounts on path. Writable, whatever the mount is to be: containers see clones
 * of it that are read-only where they should be. */
int fuse_conn_open(
	struct fuse_conn *c, uint32_t id, bool cow, const char *path, struct err *e) must_check;
void fuse_conn_close(struct fuse_conn *c);

static inline bool fuse_conn_may_read(const struct fuse_conn *c)
{
	return c->id != 0 && c->out_len < FS_REQUESTS_MAX;
}
/* Reads the next request, FUSE_CONN_READ_SIZE bytes at ret at most. 0: none now; -ENODEV: the file
 * system is gone. Interrupts are left out: the server finishes what it was asked. */
ssize_t fuse_conn_next(struct fuse_conn *c, void *ret) must_check;

enum fuse_conn_reply {
	FUSE_REPLY_DROPPED, /* malformed, or to nothing that is out */
	FUSE_REPLY_DONE,
	FUSE_REPLY_NOTIFICATION, /* not written: see notifier.h */
	FUSE_REPLY_READY,	 /* INIT was accepted */
	FUSE_REPLY_REFUSED,	 /* INIT was not */
};
enum fuse_conn_reply fuse_conn_reply(struct fuse_conn *c, const void *data, size_t len);
/* All that is out fails with EIO, but INIT: when that is out, true, and init is to be sent again.
 */
bool fuse_conn_fail(struct fuse_conn *c);

#endif
