/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process holds a sandbox's lock: needed only to wait for a supervisor's end and to end one
 * that does not answer. There are no pid files, and a socket's peer is who called listen(2), that
 * is the client that started the supervisor. So the kernel is asked: /proc/PID/fdinfo/N names the
 * lock of that very open file description (proc_pid_fdinfo(5)).
 */
#ifndef KOSA8_CLI_HOLDER_H
#define KOSA8_CLI_HOLDER_H

#include "../base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* A pidfd of the supervisor that holds the lock, or -ENOENT: nobody, or it is no supervisor. */
int holder_find(int sandbox_dirfd) must_check;
/* Waits for the process's end: true when it came before the deadline (clock_mono_ms). */
bool holder_wait(int pidfd, int64_t deadline_ms);
int holder_kill(int pidfd) must_check;

#endif
