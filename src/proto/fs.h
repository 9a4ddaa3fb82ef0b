/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire between the supervisor and kosa8-fs, which serves one mount: frames (base/frame.h, epoch
 * and stream 0) on a stream socket, its descriptor FS_SOCKET_FD. FS_ROOT_FD is the folder it
 * serves.
 *
 *   kosa8-fs [--read-only] [--restore] [--memory]
 *                 with --restore, FS_TABLE_FD holds a table from FS_SAVE;
 *                 with --memory, FS_MEMORY_FD is shared with the supervisor: slots, see below
 *
 * kosa8-fs sends FS_READY when it is confined and serves, or FS_FAILED. It ends when the socket is
 * closed. One request is answered by one reply; those that FUSE does not answer (FORGET,
 * BATCH_FORGET, INTERRUPT) are not. Notifications (unique 0) come at any time.
 *
 * Slots. A frame FS_REQUEST whose stream is not 0 asks for the answer in slot (stream - 1) of the
 * shared memory, FS_SLOTS of FS_SLOT_SIZE bytes each: there stands what follows the header, and the
 * frame FS_REPLY_SLOT holds the header alone. An answer that is short comes as FS_REPLY all the
 * same. Only so can more than FS_DATA_MAX be asked for.
 *
 * The table: node numbers with their places below the root, handle numbers with what they have
 * open, and the numbers that come next: all that a guest of that moment may refer to. It is
 * versioned, and bounded on reading like any file from outside.
 */
#ifndef KOSA8_PROTO_FS_H
#define KOSA8_PROTO_FS_H

#define FS_SOCKET_FD 3
#define FS_ROOT_FD 4
#define FS_TABLE_FD 5
#define FS_MEMORY_FD 6

enum fs_type {
	/* supervisor -> kosa8-fs */
	FS_REQUEST = 1, /* one message as read from /dev/fuse */
	FS_SAVE = 2,	/* with one descriptor (SCM_RIGHTS): write the table there; no fsync */

	/* kosa8-fs -> supervisor */
	FS_READY = 65,
	FS_REPLY = 66,	    /* one message as written to /dev/fuse */
	FS_SAVED = 67,	    /* u32: 0 or an errno */
	FS_FAILED = 68,	    /* text: why it ends */
	FS_REPLY_SLOT = 69, /* struct fuse_out_header; its len counts what is in the slot */
};

/*
 * A notice whose fuse_out_header.error is FS_EVENT is not for /dev/fuse: the host changed a file in
 * a folder that the guest looks into, and the relay raises the guest's inotify event for it, by a
 * system call on its own mount of the file system, made by the thread that has set the attribute
 * trusted.kosa8.relay (its number in decimal) on the root. kosa8-fs does not carry these calls out.
 * After the header: u64 node of the folder, u32 kind, u32 type (S_IFMT), the path below the root
 * with its NUL. Read-only mounts have them too, so the relay's mount must be writable.
 */
#define FS_EVENT 1000
enum fs_event {
	FS_EVENT_CREATED = 1,  /* mknod, mkdir or symlink, by type */
	FS_EVENT_DELETED = 2,  /* unlink or rmdir */
	FS_EVENT_MODIFIED = 3, /* utimensat, AT_SYMLINK_NOFOLLOW: {UTIME_OMIT, UTIME_NOW} */
	FS_EVENT_ATTRIB = 4,   /* utimensat, AT_SYMLINK_NOFOLLOW: {UTIME_NOW, UTIME_NOW} */
};

/* Data in one WRITE request, and in a reply without a slot: max_write. */
#define FS_DATA_MAX (128u * 1024)
/* Data in one READ with a slot: max_read. */
#define FS_SLOT_SIZE (1024u * 1024)
/* The relay's pool, which all mounts share; and one more slot, which is each mount's own. */
#define FS_POOL_MAX 4u
#define FS_SLOTS (FS_POOL_MAX + 1)
/* What is shorter needs no slot. */
#define FS_SHORT_MAX 2048u
/* Requests of one mount that the agent lets be out at once. */
#define FS_REQUESTS_MAX 64

#endif
