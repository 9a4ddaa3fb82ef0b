/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One COPY session: a child process that enters the place where the files are and writes or reads
 * one tree (proto/tree.h) through pipes to the agent, which treats them like a run's streams. It
 * keeps no other descriptor of the agent's, is in a cgroup below that of all runs, and ends when
 * the tree is through, when a pipe breaks, or when it is killed: then no half file is left under
 * its name.
 *
 * Reports (container-report.h): STARTED without descriptors, when the place and the path were
 * found, or FAILED. After STARTED what goes wrong is said as one line on stdio[2], and ENDED has
 * the exit code 1 (else 0).
 */
#ifndef KOSA8_GUEST_COPY_H
#define KOSA8_GUEST_COPY_H

#include "../proto/agent-files.h"
#include "container-report.h"
#include "fs-mounts.h"

#include <sys/types.h>

enum copy_place {
	COPY_WORKSPACE, /* folder: the workspace; seen as /workspace */
	COPY_RUNNING,	/* init: of a container; a child that was not waited for */
	COPY_ENDED,	/* image_dir and disk_dir as in struct container; not mounted elsewhere */
	COPY_UPPER,	/* folder: the upper folder of an overlay */
};

struct copy_spec {
	const struct agent_copy *copy;
	enum copy_place place;
	const char *folder;
	pid_t init;
	const char *image_dir, *disk_dir;
	const struct fs_mounts *mounts; /* of WORKSPACE: those in it are seen; NULL: none */
	int cgroup_fd;			/* -1: the caller's */
	int stdio[3]; /* the tree comes in, the tree goes out, text; those not used may be -1 */
	int report_fd;
};
/* The descriptors stay the caller's. Returns the child's pid. */
pid_t copy_start(const struct copy_spec *s, struct err *e) must_check;

#endif
