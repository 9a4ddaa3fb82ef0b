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
 *
 * A request whose answer may be long is given a slot (fuse-slots.h). One that must have a slot when
 * none is free is parked: it was read, and is passed on later.
 */
#ifndef KOSA8_GUEST_FUSE_CONN_H
#define KOSA8_GUEST_FUSE_CONN_H

#include "../base/err.h"
#include "../proto/fs.h"
#include "fuse-slots.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What a read of /dev/fuse needs room for: the largest WRITE and its headers. */
#define FUSE_CONN_READ_SIZE (FS_DATA_MAX + 4096)
#define FUSE_CONN_INIT_MAX 256

/* A READ with its header. */
#define FUSE_PARKED_MAX 80

struct fuse_out {
	uint64_t unique;
	int slot;
};
struct fuse_parked {
	size_t len;
	unsigned char data[FUSE_PARKED_MAX];
};

struct fuse_conn {
	uint32_t id; /* 0: not in use */
	bool cow;
	int fd;
	bool readable;
	bool ready; /* INIT was answered */
	size_t out_len;
	struct fuse_out out[FS_REQUESTS_MAX];
	size_t parked_len;
	struct fuse_parked parked[FS_REQUESTS_MAX];
	struct fuse_slots *slots;
	unsigned char *own; /* the mount's own slot; NULL: not used yet */
	size_t init_len;
	unsigned char init[FUSE_CONN_INIT_MAX];
};

/* Opens /dev/fuse and mounts on path. Writable, whatever the mount is to be: containers see clones
 * of it that are read-only where they should be. */
int fuse_conn_open(struct fuse_conn *c, uint32_t id, bool cow, const char *path,
	struct fuse_slots *slots, struct err *e) must_check;
/* Lets the kernel read ahead as much as the slots take. */
void fuse_conn_read_ahead(const char *path);
void fuse_conn_close(struct fuse_conn *c);

static inline bool fuse_conn_may_read(const struct fuse_conn *c)
{
	return c->id != 0 && c->out_len < FS_REQUESTS_MAX;
}
/* The next request, FUSE_CONN_READ_SIZE bytes at ret at most, and its slot or FUSE_NO_SLOT: a
 * parked one, or else one that is read. 0: none now; -ENODEV: the file system is gone. Interrupts
 * are left out: the server finishes what it was asked. */
ssize_t fuse_conn_next(struct fuse_conn *c, void *ret, int *ret_slot) must_check;
/* Only what is parked. */
ssize_t fuse_conn_unpark(struct fuse_conn *c, void *ret, int *ret_slot) must_check;

enum fuse_conn_reply {
	FUSE_REPLY_DROPPED, /* malformed, or to nothing that is out */
	FUSE_REPLY_DONE,
	FUSE_REPLY_NOTIFICATION, /* not written: see notifier.h */
	FUSE_REPLY_READY,	 /* INIT was accepted */
	FUSE_REPLY_REFUSED,	 /* INIT was not */
};
enum fuse_conn_reply fuse_conn_reply(struct fuse_conn *c, const void *data, size_t len);
/* FUSE_SLOT and FUSE_PART. */
enum fuse_conn_reply fuse_conn_reply_slot(struct fuse_conn *c, const void *data, size_t len);
void fuse_conn_part(struct fuse_conn *c, const void *data, size_t len);
/* All that is out fails with EIO, but INIT: when that is out, true, and init is to be sent again.
 */
bool fuse_conn_fail(struct fuse_conn *c);

#endif
