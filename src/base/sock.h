/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unix stream sockets named relative to a directory descriptor, so that the length of the state
 * directory's path does not matter (sun_path holds 107 bytes, unix(7)): they are addressed as
 * /proc/self/fd/N/NAME. Functions return a CLOEXEC descriptor or a negative errno.
 */
#ifndef KOSA8_BASE_SOCK_H
#define KOSA8_BASE_SOCK_H

#include "err.h"

#include <sys/types.h>

/* Replaces a stale socket file of that name; mode 0600. The caller holds the lock that says that
 * nobody else listens there. */
int sock_listen(int dirfd, const char *name) must_check;
int sock_connect(int dirfd, const char *name) must_check;
/* A connected pair, both CLOEXEC. */
int sock_pair(int ret[2]) must_check;
/* Who is at the other end (SO_PEERCRED). */
int sock_peer(int fd, pid_t *ret_pid, uid_t *ret_uid) must_check;

#endif
