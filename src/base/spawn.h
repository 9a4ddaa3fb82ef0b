/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a program: fork and exec with exactly the descriptors it is to have. (Not uv_spawn():
 * the child must die with its parent (PR_SET_PDEATHSIG) and confine itself before exec.)
 */
#ifndef KOSA8_BASE_SPAWN_H
#define KOSA8_BASE_SPAWN_H

#include "err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define SPAWN_FDS_MAX 140

struct spawn {
	char *const *argv; /* argv[0] is a path, or found in PATH */
	char *const *envp; /* NULL: the caller's environment */
	/* fds[i] becomes descriptor i of the child; -1: /dev/null for 0 to 2, closed above. All
	 * others are closed. */
	int fds[SPAWN_FDS_MAX];
	size_t fds_len;
	bool die_with_parent; /* SIGKILL when the calling thread's process ends */
	bool new_session;     /* setsid(2) */
	/* Runs in the child just before exec, async-signal-safe code only; a negative return ends
	 * the child and is reported as the errno of the start. May be NULL. */
	int (*confine)(void *ctx);
	void *confine_ctx;
};

/* Starts it; reports a failed exec or confine as an error. ret_pidfd may be NULL. */
int spawn_start(const struct spawn *s, pid_t *ret_pid, int *ret_pidfd, struct err *e) must_check;
/* Waits for the end: exit code, or 128 + signal. Negative errno if it is not our child. */
int spawn_wait(pid_t pid) must_check;
/* Runs to the end with stdin from /dev/null and stdout+stderr into out (bounded by its maximum,
 * the rest is dropped); out may be NULL (/dev/null). Killed at the deadline (clock_mono_ms, -1
 * none): -ETIMEDOUT. Returns the exit code. */
struct buf;
int spawn_run(char *const *argv, struct buf *out, long long deadline_ms, struct err *e) must_check;

#endif
