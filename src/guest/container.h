/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One container: the child process that becomes it. In named stages, each in its own file:
 *
 *   container.c          clone into the run's cgroup and new mount, pid, uts and ipc namespaces;
 *                        then, as process 1 of the new pid namespace ("init"): the stages below,
 *                        wait for the program, reap orphans, report. Must not keep any descriptor
 *                        of the agent but the report pipe; is not dumpable, so nobody in the
 *                        container can read the copy of the agent's memory that it holds.
 *   container-root.c     overlay of image and the run's folder; becomes the root (pivot_root).
 *                        The files of /etc that docker makes are written into the folder first.
 *                        Afterwards every path is the container's own.
 *   container-mounts.c   /proc /sys /dev, masked and read-only paths, /workspace, the
 *                        host's folders
 *   container-program.c  user, folder, limits, capabilities, exec of the program as process 2
 *
 * When the program ends, init kills and reaps all that is left in its pid namespace, reports, ends.
 */
#ifndef KOSA8_GUEST_CONTAINER_H
#define KOSA8_GUEST_CONTAINER_H

#include "fs-view.h"

#include <sys/types.h>

struct container {
	struct agent_run *run; /* the child changes its own copy */
	const char *image_dir; /* the mounted image */
	const char *disk_dir;  /* with upper and work, as the keeper makes it */
	const char *hostname;
	const char *machine_id;		/* 32 hex digits */
	const struct fs_mounts *mounts; /* NULL: none */
	int cgroup_fd;
	int stdio[3];  /* the program's 0 to 2 */
	int report_fd; /* where init writes struct container_report */
};

/* One write each, so it comes whole (pipe(7), PIPE_BUF). */
enum container_event {
	CONTAINER_FAILED = 1, /* reply says why; the program was not started */
	CONTAINER_STARTED,    /* value: the number of a pidfd of the program in init */
	CONTAINER_ENDED,      /* value: the program's wait status */
};
struct container_report {
	uint32_t event;
	int32_t value;
	struct agent_reply reply;
};

/* Starts it; the descriptors stay the caller's. Returns init's pid. */
pid_t container_start(const struct container *c, struct err *e) must_check;

/* The stages, run in init. */
/* ret_workspace: the workspace, as a mount that is not attached yet (open_tree(2)). */
int container_enter_root(const struct container *c, int *ret_workspace, struct err *e) must_check;
int container_mount(const struct container *c, int workspace, struct err *e) must_check;

/* What the program needs, looked up by init in the container. */
struct program;
struct program *program_prepare(const struct container *c, struct err *e) must_check;
/* In the vfork'ed child: does not return on success. Else what to report is in *ret. */
void program_exec(struct program *p, struct agent_reply *ret);

#endif
