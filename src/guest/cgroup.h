/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups (kernel: Documentation/admin-guide/cgroup-v2.rst):
 *
 *   /sys/fs/cgroup/agent      the agent and its own helpers
 *   /sys/fs/cgroup/runs       all containers: together they may take all but a reserve of memory
 *                             and processes, and are frozen together
 *   /sys/fs/cgroup/runs/ID    one container with its limits; killed as a whole
 *   /sys/fs/cgroup/runs/copies the processes of COPY (copy.h): they are frozen with the containers,
 *                             and together have a quarter of the memory
 *   /sys/fs/cgroup/runs/ID/eN one exec in it. No controller is handed on to it, so the container's
 *                             limits hold for both, and both may have processes
 *
 * When memory is short in a container the kernel ends the greediest process, not the container.
 */
#ifndef KOSA8_GUEST_CGROUP_H
#define KOSA8_GUEST_CGROUP_H

#include "../base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* The kernel takes no less than a hundredth of a CPU. */
#define CGROUP_CPU_MIN 10u
/* Of one run that names no limit, in a guest that has room for twice as many. */
#define CGROUP_PIDS_DEFAULT 4096u
/* docker's minimum: with less, not even the setting up of a container would fit. */
#define CGROUP_MEMORY_MIN (6u << 20)

struct cgroups {
	int runs_fd;   /* the folder runs */
	int copies_fd; /* the folder runs/copies */
	uint32_t pids; /* what one run may have when it names no limit: at most half of all */
};

/* The hierarchy is mounted; makes the groups and moves the caller into its own. */
int cgroup_boot(struct cgroups *c, struct err *e) must_check;

struct cgroup_limits {
	uint64_t memory_bytes; /* 0: none */
	uint32_t pids;	       /* of the container, init not counted; 0: cgroups.pids */
	uint32_t cpu_milli;    /* thousandths of a CPU; 0: none */
};
/* Makes runs/ID; returns its folder's descriptor. */
int cgroup_create(struct cgroups *c, const char *id, const struct cgroup_limits *limits,
	struct err *e) must_check;
/* A group for an exec, in the container's; returns its folder's descriptor. */
int cgroup_create_exec(int container_fd, unsigned number, struct err *e) must_check;
/* -EBUSY while there are processes in it. */
int cgroup_remove_exec(int container_fd, unsigned number) must_check;
/* Removes those without processes; true when some are left. */
bool cgroup_sweep_execs(int container_fd);
/* Kills all in the group of this folder; fork bombs too (cgroup.kill). */
int cgroup_kill(int fd) must_check;
/* With the groups of execs. 0, or -EBUSY while there are processes in it. */
int cgroup_remove(struct cgroups *c, const char *id) must_check;
/* How often the kernel killed for lack of memory in it. */
uint64_t cgroup_oom_kills(int fd);

struct cgroup_usage {
	uint32_t processes; /* init counted */
	uint64_t memory_bytes;
};
void cgroup_usage(int fd, struct cgroup_usage *ret);

int cgroup_freeze(struct cgroups *c, bool freeze) must_check;
/* cgroup.events of all runs: its priority event says that cgroup_is_frozen() may have changed. */
int cgroup_events_open(struct cgroups *c, struct err *e) must_check;
bool cgroup_is_frozen(int events_fd);

#endif
