/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock (Linux's Documentation/userspace-api/landlock.rst): rules for the calling process and
 * all that it starts. A rule set handles all that this kernel's Landlock knows of files, and of the
 * rest what is asked for; what is handled and not allowed is denied.
 */
#ifndef KOSA8_BASE_LANDLOCK_H
#define KOSA8_BASE_LANDLOCK_H

#include "err.h"

#include <linux/landlock.h>
#include <stdint.h>

/* Younger than the headers of Debian 12, which know ABI 1 and 2. */
#define LANDLOCK_FS_REFER (1ull << 13)	   /* ABI 2 */
#define LANDLOCK_FS_TRUNCATE (1ull << 14)  /* ABI 3 */
#define LANDLOCK_FS_IOCTL_DEV (1ull << 15) /* ABI 5 */
#define LANDLOCK_NET_BIND_TCP 1ull	   /* ABI 4 */
#define LANDLOCK_NET_CONNECT_TCP 2ull
#define LANDLOCK_SCOPE_SOCKETS 1ull /* ABI 6: abstract sockets, signals */
#define LANDLOCK_SCOPE_SIGNALS 2ull

struct landlock {
	int fd;
	uint64_t fs; /* the rights that are handled */
};
#define LANDLOCK_NONE    \
	{                \
		.fd = -1 \
	}

/* 1: *ret is a rule set that allows nothing; 0: the kernel has no Landlock, or it is off. net and
 * scoped: what to handle of these, as far as the kernel can. */
int landlock_start(uint64_t net, uint64_t scoped, struct landlock *ret, struct err *e) must_check;
/* Allows these rights at path and below it. A path that leads to nothing is no error. What only
 * folders can have is left out for another thing. */
int landlock_allow(
	const struct landlock *l, const char *path, uint64_t rights, struct err *e) must_check;
/* Puts them in force (no_new_privs must be set) and closes the set. 1 */
int landlock_enter(struct landlock *l, struct err *e) must_check;
void landlock_release(struct landlock *l);
#define cleanup_landlock __attribute__((cleanup(landlock_release)))

#endif
