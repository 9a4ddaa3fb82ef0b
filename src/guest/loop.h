/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's one wait. Descriptors are watched edge-triggered: the loop only sets flags, and the
 * owner of a watch clears a flag when the descriptor says EAGAIN. So an owner that may not read now
 * (window, quiescence) simply does not, without a system call, and a hung-up descriptor cannot
 * make the loop spin.
 */
#ifndef KOSA8_GUEST_LOOP_H
#define KOSA8_GUEST_LOOP_H

#include "../base/err.h"

#include <stdbool.h>

struct loop {
	int epfd;
};

struct watch {
	int fd;	       /* -1: nothing watched */
	bool readable; /* or at its end, or in error */
	bool writable;
	bool priority; /* cgroup.events changed */
};

enum watch_for { WATCH_READ = 1, WATCH_WRITE = 2, WATCH_PRIORITY = 4 };

int loop_init(struct loop *l, struct err *e) must_check;
/* Takes the (non-blocking) descriptor; on failure too: it is closed then. The flags start set, so
 * that what was there before is not missed. */
int loop_watch(struct loop *l, struct watch *w, int fd, unsigned what, struct err *e) must_check;
/* Closes it. A child may still hold a copy, so it is taken out of the loop by name. */
void loop_unwatch(struct loop *l, struct watch *w);
/* Sets the flags of all watches that have news. timeout_ms -1: no limit. */
void loop_wait(struct loop *l, int timeout_ms);

#endif
