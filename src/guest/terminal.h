/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A terminal of a container (pty(7)), out of the container's own /dev/pts. The program's side gets
 * what openpty(3) and docker give it: its user's, mode 0620, group tty (5, by the mount's option).
 */
#ifndef KOSA8_GUEST_TERMINAL_H
#define KOSA8_GUEST_TERMINAL_H

#include "../base/err.h"
#include "../proto/agent.h"

#include <sys/types.h>

struct terminal {
	int master, slave; /* -1: none */
	int number;	   /* of /dev/pts/NUMBER */
};
/* In the container's mount namespace. */
int terminal_open(
	const struct agent_size *size, uid_t owner, struct terminal *ret, struct err *e) must_check;
void terminal_close(struct terminal *t);
/* Of a master; the programs get SIGWINCH when that is a change. */
int terminal_resize(int master, const struct agent_size *size) must_check;
/* In the program's process, a session leader: makes it the controlling terminal and 0 to 2. Plain
 * system calls only. 0 or -errno. */
int terminal_take(int slave) must_check;

#endif
