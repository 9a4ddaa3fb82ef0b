/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a child process of the agent (a container's init, the parent of an exec, a copy) tells it:
 * packets on a SOCK_SEQPACKET pair, of which the agent's end does not block.
 *
 *   FAILED                  instead of STARTED
 *   STARTED, then ENDED     or the child's death without a word, when somebody killed it
 */
#ifndef KOSA8_GUEST_CONTAINER_REPORT_H
#define KOSA8_GUEST_CONTAINER_REPORT_H

#include "../base/err.h"
#include "../proto/agent.h"

enum container_event {
	CONTAINER_FAILED = 1, /* reply says why; the program was not started */
	CONTAINER_STARTED,    /* with the descriptors of struct container_started */
	CONTAINER_ENDED,      /* value: the program's wait status */
};
struct container_report {
	uint32_t event;
	int32_t value;
	struct agent_reply reply;
};

/* Owned by who received them; -1: none. */
struct container_started {
	int program;  /* pidfd */
	int terminal; /* the master of its terminal; blocking */
};

/* ret[0] is the agent's. */
int container_report_pair(int ret[static 2], struct err *e) must_check;
/* The next report: 1; 0 at the end; -EAGAIN when there is none; -EPROTO for anything else. *ret_fds
 * is always written. A reply's text is terminated. */
int container_report_receive(
	int fd, struct container_report *ret, struct container_started *ret_fds) must_check;

/* In the child. Nobody to tell is no fault of its own: failures are ignored. */
void container_report_started(int fd, const struct container_started *fds);
void container_report_ended(int fd, int wait_status);
void container_report_failed(int fd, const struct agent_reply *reply);
/* The same as AGENT_FAIL_SETUP. */
void container_report_error(int fd, const struct err *e);

#endif
