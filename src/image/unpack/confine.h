/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Confinement of a worker that reads untrusted bytes, in stages. Each stage says what it takes away
 * and what must be done before it; the order is the one below.
 *
 *  1. confine_start()       no descriptor but those handed over; no dump, no new privileges by
 *                           exec; SIGPIPE ignored. Must be first: nothing later is opened.
 *  2. confine_namespaces()  own user, network, mount, IPC, host name and (for children) process
 *                           namespaces, where the host allows them: not an error where it does not.
 *                           Must be before fork(2) and while the process has one thread.
 *  3. confine_limits()      CPU time, memory, size of the output, no core file.
 *  4. confine_landlock()    no path and no TCP port at all, as far as the kernel's Landlock knows.
 *                           Whatever libraries read from files must have been read.
 *  5. confine_capabilities()  none left, not even in the bounding set.
 *  6. confine_syscalls()    the allow-list: memory, threads of this process, the clock, random
 *                           bytes, reading and writing descriptors that are open. The only stage
 *                           that is always there; its failure is an error. A file opened, a stat or
 *                           an ioctl gives EACCES (libraries try some); anything else kills.
 *
 * Stages 3 to 6 hold for threads started later. The threads of the process before must be one.
 */
#ifndef KOSA8_IMAGE_UNPACK_CONFINE_H
#define KOSA8_IMAGE_UNPACK_CONFINE_H

#include "../../base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct confine_limits {
	uint64_t cpu_seconds;  /* SIGXCPU at the end of them */
	uint64_t memory_bytes; /* RLIMIT_DATA */
	uint64_t file_bytes;   /* RLIMIT_FSIZE */
};

/* What stages 4 and 6 leave to a process. */
enum confine_role {
	CONFINE_WORKER,	 /* threads */
	CONFINE_MONITOR, /* waiting for its worker, killing it; no threads */
};

/* Descriptors from first_closed on are closed. */
int confine_start(unsigned first_closed, struct err *e) must_check;
/* Returns which could not be had as a text for a log line, or NULL. */
const char *confine_namespaces(void);
int confine_limits(const struct confine_limits *l, struct err *e) must_check;
/* 1: in force; 0: the kernel has no Landlock. */
int confine_landlock(enum confine_role role, struct err *e) must_check;
int confine_capabilities(struct err *e) must_check;
/* worker: of a monitor; else 0. */
int confine_syscalls(enum confine_role role, pid_t worker, struct err *e) must_check;

#endif
