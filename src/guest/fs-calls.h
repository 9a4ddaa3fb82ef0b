/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process beside the relay for each mount, which makes the calls on it that the agent's side
 * needs and that may wait for the server: raising inotify events for the host's changes (FS_EVENT
 * in proto/fs.h), and telling the server whose the files are. It holds no descriptor of /dev/fuse,
 * so that the end of the relay or of the mount ends its calls too; nobody waits for it but with a
 * limit.
 *
 * Its socket for owners is relay_path(id, "calls"), in the agent's mount namespace only: a packet
 * "UID:GID" is answered by an int32_t, 0 or a negative errno.
 *
 * A path of an event is looked up below the mount's root without following a link or crossing into
 * another mount: programs of the guest can put links in the place of folders at any time.
 */
#ifndef KOSA8_GUEST_FS_CALLS_H
#define KOSA8_GUEST_FS_CALLS_H

#include "../base/err.h"

#include <stddef.h>
#include <stdint.h>

#define FS_CALLS_OWNER_SIZE 32 /* "UID:GID" with its NUL */
/* How long a container that starts waits for the servers that are to be told. */
#define FS_CALLS_TELL_MS 3000

/* Starts it for a mount; returns its socket for events. When that is closed, it ends. */
int fs_calls_start(uint32_t id, struct err *e) must_check;
/* The mount was accepted: from now on the server may send events. */
void fs_calls_ready(int fd);
/* One event, a whole FUSE message. Never waits: when too many do, it is lost. */
void fs_calls_event(int fd, const void *data, size_t len);
/* The socket's name goes. */
void fs_calls_forget(uint32_t id);

/* For a container: opened before pivot_root, -1 when there is none. */
int fs_calls_open(uint32_t id);
/* Asks by what was opened, through the container's /proc: a socket on which the answer comes, or a
 * negative errno. */
int fs_calls_tell(int opened, uint32_t uid, uint32_t gid) must_check;
/* 0, the answer, or -ETIMEDOUT. */
int fs_calls_told(int sock, int64_t deadline_ms) must_check;

#endif
