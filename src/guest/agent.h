/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent after boot: one loop over the two ports, the runs, and what waits for the kernel.
 * agent_step() does one bounded round of everything; it never blocks on a guest process.
 */
#ifndef KOSA8_GUEST_AGENT_H
#define KOSA8_GUEST_AGENT_H

#include "cgroup.h"
#include "disk.h"
#include "image.h"
#include "loop.h"
#include "mux.h"
#include "quiesce.h"
#include "resume.h"
#include "trash.h"

/* What a request may need; a frame that comes too early is refused with a clear text. */
enum agent_phase {
	AGENT_TEMPLATE,	  /* booted: CONFIGURE, PING, QUIESCE, SHUTDOWN */
	AGENT_CONFIGURED, /* the disk is mounted: all but CONFIGURE */
	AGENT_STOPPING,	  /* SHUTDOWN came: no new runs */
};

struct agent {
	enum agent_phase phase;
	struct loop loop;
	struct watch uevents, signals;
	struct mux mux;
	struct resume resume;
	struct cgroups cgroups;
	struct quiesce quiesce;
	struct disk disk;
	struct images images;
	struct trash_child trash;
	char hostname[64];
};

int agent_init(struct agent *a, int uevent_fd, struct err *e) must_check;
/* Opens the ports and sends HELLO. */
int agent_open_ports(struct agent *a, struct err *e) must_check;
/* Serves until the VM is to be switched off. */
void agent_serve(struct agent *a);

#endif
