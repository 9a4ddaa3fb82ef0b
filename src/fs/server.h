/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server of one mount: FUSE's messages (linux/fuse.h, 7.31 to what Linux 6.1 speaks) on the
 * frames of proto/fs.h. One thread; an operation is a few system calls on the host.
 *
 * All in a request is hostile. A name is one component, never followed when it is a link; a node
 * is reached by its descriptor; another file that stands where a node was is -ESTALE.
 */
#ifndef KOSA8_FS_SERVER_H
#define KOSA8_FS_SERVER_H

#include "event.h"
#include "handle.h"
#include "node.h"
#include "watch.h"

#include "../base/buf.h"
#include "../proto/fs.h"

#include <linux/fuse.h>
#include <sys/types.h>
/* A reply's payload: READ's data, and room for what stands before it. */
#define REPLY_MAX (FS_DATA_MAX + 4096u)
#define FS_NO_REPLY (-100000)

struct fs {
	int sock, root_fd, proc_fd; /* proc_fd: /proc/self/fd */
	bool read_only, no_xattr;
	uid_t caller;
	uint32_t owner_uid, owner_gid; /* who owns the caller's files in the guest */
	uint32_t relay_pid;	       /* 0: none said */
	uint32_t minor;		       /* of the guest's FUSE, 0 before INIT */
	struct nodes nodes;
	struct handles handles;
	struct watches watches;
	struct host_events events;
	struct buf notices;   /* frames that go out before the next reply */
	unsigned char *out;   /* frame header, FUSE header, payload */
	unsigned char *slots; /* of fs_map_slots(), or NULL */
};

struct request {
	struct fuse_in_header h;
	const unsigned char *at; /* what is left of its body */
	size_t left;
	struct node *node;  /* h.nodeid's */
	unsigned char *out; /* REPLY_MAX bytes at least, aligned to 8 */
	size_t read_max;    /* of them, for READ */
};

int fs_init(struct fs *fs, int sock, int root_fd, bool read_only, struct err *e) must_check;
void fs_release(struct fs *fs);
/* The slots of proto/fs.h. */
int fs_map_slots(struct fs *fs, int fd) must_check;
/* Answers one message: writes into fs->out and returns its length with the FUSE header at
 * fs->out + FRAME_HEADER_SIZE; 0 when it is not answered, -EPROTO when it is no message. With a
 * slot, what follows the header is there when the length is over FS_SHORT_MAX. */
int fs_answer(struct fs *fs, const void *message, size_t len, unsigned char *slot) must_check;
/* Until the socket is closed: 0. */
int fs_serve(struct fs *fs, struct err *e) must_check;

/* request.c. The body's next struct; false when it is too short. */
bool take(struct request *q, void *ret, size_t len);
/* A name for a file in a folder: valid, or a negative errno. take_string(): any. */
int take_name(struct request *q, const char **ret) must_check;
int take_string(struct request *q, const char **ret) must_check;

/* An operation returns the length of its reply's payload, a negative errno, or FS_NO_REPLY. */
typedef int operation(struct fs *fs, struct request *q);
operation op_lookup, op_forget, op_batch_forget, op_getattr, op_setattr, op_readlink, op_access;
operation op_symlink, op_mknod, op_mkdir, op_unlink, op_rmdir, op_rename, op_rename2, op_link;
operation op_open, op_create, op_release, op_flush, op_fsync, op_read, op_write, op_fallocate;
operation op_lseek, op_copy_file_range, op_statfs, op_opendir, op_readdir, op_readdirplus;
operation op_setxattr, op_getxattr, op_listxattr, op_removexattr, op_tmpfile;

/* attr.c */
struct place {
	int fd;
	const char *name; /* "": fd itself */
};
#define PROC_PATH_SIZE 16
/* FD as a name below fs->proc_fd: the way to the very file of an O_PATH descriptor. */
void proc_path(int fd, char ret[static PROC_PATH_SIZE]);
/* What the host says of a node now; its identity is checked. */
int node_statx(struct fs *fs, struct node *node, struct statx *ret) must_check;
/* An O_PATH or other descriptor of the node, also when its name is gone. */
int node_any_fd(struct fs *fs, struct node *node) must_check;
void attr_fill(struct fs *fs, int dir_fd, const char *name, const struct statx *x, uint64_t id,
	struct fuse_attr *ret);
/* A reply for a file that was found or made, or as LOOKUP by name; counts the lookup. */
int entry_fill(struct fs *fs, struct node *parent, int dir_fd, const char *name,
	const struct statx *x, struct fuse_entry_out *ret) must_check;
int entry_of(struct fs *fs, struct node *parent, int dir_fd, const char *name,
	struct fuse_entry_out *ret) must_check;
int attr_reply(struct fs *fs, struct request *q, struct node *node) must_check;
/* The owner that the guest gave a file; kept on the host as an attribute of it. */
int owner_store(struct fs *fs, int fd, uint32_t uid, uint32_t gid) must_check;
void owner_of_new(struct fs *fs, const struct request *q, int dir_fd, const char *name);

/* override.c: guest root is not kept off by the mode of a file that is the caller's. */
struct widened {
	int fd;
	mode_t mode;
	char proc[PROC_PATH_SIZE];
};
#define NOT_WIDENED      \
	{                \
		.fd = -1 \
	}
bool widen(struct fs *fs, const struct request *q, int error, struct node *node, int fd,
	struct widened *w);
void narrow(struct fs *fs, struct widened *w);

int handle_fd(struct fs *fs, struct handle *handle) must_check;
/* A descriptor of its own for a node, its mode overridden if need be; never of a device or fifo. */
int open_node(struct fs *fs, const struct request *q, struct node *node, uint32_t flags) must_check;
void close_reply(struct fs *fs, struct handle *handle);

#endif
