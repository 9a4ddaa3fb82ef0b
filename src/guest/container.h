/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One container: the child process that becomes it. In named stages, each in its own file:
 *
 *   container.c          clone into the run's cgroup and new mount, pid, uts and ipc namespaces;
 *                        then, as process 1 of the new pid namespace ("init"): the stages below,
 *                        wait for the program, reap orphans, report. Must not keep any descriptor
 *                        of the agent but the report channel; is not dumpable, so nobody in the
 *                        container can read the copy of the agent's memory that it holds.
 *   container-root.c     overlay of image and the run's folder; becomes the root (pivot_root).
 *                        The files of /etc that docker makes are written into the folder first.
 *                        Afterwards every path is the container's own.
 *   container-mounts.c   /proc /sys /dev, masked and read-only paths, /workspace, the host's
 * folders container-program.c  user, folder, terminal, limits, capabilities, exec of the program
 *
 * When the program ends, init kills and reaps all that is left in its pid namespace, reports, ends.
 *
 * And one exec (container-exec.c): a child in a cgroup of its own that joins the namespaces of a
 * container's init, starts a program there by the same last stage, and ends when that has ended.
 * What the program left behind belongs to the container: its init reaps it. The child itself is
 * not in the pid namespace, so nobody in the container sees it.
 *
 * For lack of memory the kernel kills the programs, and init or an exec's parent only when nothing
 * else is left.
 */
#ifndef KOSA8_GUEST_CONTAINER_H
#define KOSA8_GUEST_CONTAINER_H

#include "../proto/agent.h"
#include "container-report.h"
#include "fs-view.h"

#include <sys/types.h>

/* A program to be started; borrowed. */
struct program_spec {
	const char *user; /* as in struct agent_run */
	const char *cwd;  /* absolute; "" is "/" */
	char *const *argv;
	char *const *env; /* HOME, and TERM with a terminal, are added when they are missing */
	bool terminal;	  /* a new one; its master comes with CONTAINER_STARTED */
	struct agent_size size;
};

struct container {
	struct program_spec program;
	const char *image_dir; /* the mounted image */
	const char *disk_dir;  /* with upper and work, as the keeper makes it */
	const char *hostname;
	const char *machine_id;		/* 32 hex digits */
	const struct fs_mounts *mounts; /* NULL: none */
	int cgroup_fd;
	int stdio[3];  /* the program's 0 to 2; not used with a terminal */
	int report_fd; /* container-report.h */
};
/* Starts it; the descriptors stay the caller's. Returns init's pid. */
pid_t container_start(const struct container *c, struct err *e) must_check;

struct container_exec {
	struct program_spec program;
	pid_t init;    /* of the container; a child that was not waited for */
	int cgroup_fd; /* the exec's own, below the container's */
	int stdio[3];
	int report_fd;
};
/* Likewise; returns the pid of the program's parent. */
pid_t container_exec_start(const struct container_exec *x, struct err *e) must_check;

/* The stages, run in init. */
/* ret_workspace: the workspace, as a mount that is not attached yet (open_tree(2)). */
int container_enter_root(const struct container *c, int *ret_workspace, struct err *e) must_check;
int container_mount(const struct container *c, int workspace, struct err *e) must_check;

/* container-child.c: what children of the agent have in common. */
/* Keeps 0 to 2 (where stdio has -1, what is there) and CONTAINER_REPORT_FD, and nothing else of the
 * agent's; extra, if >= 0, as CONTAINER_EXTRA_FD. */
#define CONTAINER_REPORT_FD 3
#define CONTAINER_EXTRA_FD 4
int container_take_descriptors(const int stdio[static 3], int report_fd, int extra) must_check;
/* The agent itself is not to be killed for lack of memory (boot.h), and its children inherit that.
 * LAST: only when nothing else can give memory back. */
#define CONTAINER_OOM_LAST "-999"
int container_set_oom_score(const char *score) must_check;
/* Both, and what makes it invisible and untouchable for the container. */
int container_begin_child(const char *name, const struct program_spec *s, const int stdio[static 3],
	int report_fd, int extra) must_check;
/* The last stage: looks up what the program needs, starts it, reports STARTED or FAILED. Returns
 * its pid, or does not return. console: show the terminal as /dev/console too. */
pid_t container_start_program(const struct program_spec *s, bool console);

/* What the program needs, looked up in the container. */
struct program;
struct program *program_prepare(const struct program_spec *s, struct err *e) must_check;
/* In the vfork'ed child: does not return on success. Else what to report is in *ret.
 * terminal: the slave that becomes its terminal and its 0 to 2, or -1. */
void program_exec(struct program *p, int terminal, struct agent_reply *ret);
uid_t program_uid(const struct program *p);

#endif
