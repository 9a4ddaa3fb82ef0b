/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay's second thread: writes a server's notifications to /dev/fuse. Such a write takes locks
 * and waits for pages that a program holds while it waits for an answer; the thread that brings the
 * answers must not wait for it. Events (FS_EVENT) go through it to fs-calls.h, so that the kernel
 * has forgotten the name before the event's call is made.
 *
 * When entries of a mount below an overlay change, the overlay has to forget what it knows: its
 * dentries keep the lower ones, and it answers ESTALE, for as long as they are cached, when one of
 * these is no longer valid (kernel: Documentation/filesystems/overlayfs.rst, "Changes to underlying
 * filesystems"; ovl_revalidate_real()). Remounting the overlay as it is drops all dentries of it
 * that are not in use (reconfigure_super()), and nothing else of the guest's cache. That is done at
 * most once in NOTIFIER_DROP_MS, and at the latest so long after the last change.
 */
#ifndef KOSA8_GUEST_NOTIFIER_H
#define KOSA8_GUEST_NOTIFIER_H

#include "fuse-conn.h"

/* An event with its path; notifications that carry data are not for this wire. */
#define NOTIFIER_MESSAGE_MAX 4608
#define NOTIFIER_DROP_MS 100

struct notifier {
	int sock; /* -1: not started */
};

int notifier_start(struct notifier *n, struct err *e) must_check;
/* A descriptor of its own for this connection, to be given to notifier_send() and in the end to
 * notifier_forget(). */
int notifier_add(const struct fuse_conn *c) must_check;
/* fd: for an event the mount's of fs_calls_start(). When too many wait, it is lost: what the kernel
 * has cached then lives as long as the server said. */
void notifier_send(
	struct notifier *n, const struct fuse_conn *c, int fd, const void *data, size_t len);
/* Closes the descriptor when all that was sent before is done. */
void notifier_forget(struct notifier *n, int fd);

#endif
