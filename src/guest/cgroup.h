/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups (kernel: Documentation/admin-guide/cgroup-v2.rst):
 *
 *   /sys/fs/cgroup/agent      the agent and its own helpers
 *   /sys/fs/cgroup/runs       all containers: together they may take all but a reserve of memory
 *                             and processes, and are frozen together
 *   /sys/fs/cgroup/runs/ID    one run; killed as a whole
 */
#ifndef KOSA8_GUEST_CGROUP_H
#define KOSA8_GUEST_CGROUP_H

#include "../base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Of one run that names no limit, in a guest that has room for twice as many. */
#define CGROUP_PIDS_DEFAULT 4096u
/* docker's minimum: with less, not even the setting up of a container would fit. */
#define CGROUP_MEMORY_MIN (6u << 20)

struct cgroups {
	int runs_fd;   /* the folder runs */
	uint32_t pids; /* what one run may have when it names no limit: at most half of all */
};

/* The hierarchy is mounted; makes the groups and moves the caller into its own. */
int cgroup_boot(struct cgroups *c, struct err *e) must_check;

struct cgroup_limits {
	uint64_t memory_bytes; /* 0: none */
	uint32_t pids;	       /* of the container, init not counted; 0: cgroups.pids */
};
/* Makes runs/ID; returns its folder's descriptor. */
int cgroup_create(struct cgroups *c, const char *id, const struct cgroup_limits *limits,
	struct err *e) must_check;
/* Kills all in the group of this folder; fork bombs too (cgroup.kill). */
int cgroup_kill(int fd) must_check;
/* 0, or -EBUSY while there are processes in it. */
int cgroup_remove(struct cgroups *c, const char *id) must_check;
/* Whether the kernel killed for lack of memory in it. */
bool cgroup_oom_killed(int fd);

int cgroup_freeze(struct cgroups *c, bool freeze) must_check;
/* cgroup.events of all runs: its priority event says that cgroup_is_frozen() may have changed. */
int cgroup_events_open(struct cgroups *c, struct err *e) must_check;
bool cgroup_is_frozen(int events_fd);

#endif
