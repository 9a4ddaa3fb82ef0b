/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent after boot: one loop over its ports, the runs, and what waits for the kernel. A
 * round does a bounded step of each and never blocks on a guest process.
 */
#ifndef KOSA8_GUEST_AGENT_H
#define KOSA8_GUEST_AGENT_H

#include "cgroup.h"
#include "disk.h"
#include "dns.h"
#include "fs-mounts.h"
#include "image.h"
#include "loop.h"
#include "mux.h"
#include "net.h"
#include "quiesce.h"
#include "relay.h"
#include "resume.h"
#include "run.h"
#include "sessions.h"
#include "stop.h"

/* Which frames are obeyed when; what comes too early or too late is refused with a clear text.
 *
 *   before CONFIGURE   CONFIGURE PING QUIESCE SHUTDOWN; ATTACH_IMAGE (needs no disk)
 *   after              CONFIGURE (names only) ATTACH_IMAGE PING QUIESCE SHUTDOWN, requests about
 *                      containers, MOUNT UNMOUNT; sessions and their frames
 *   after SHUTDOWN     PING QUIESCE, frames of the sessions that there are
 *   standing still     none: frames wait in the port for the RESUME record
 */
struct agent {
	bool configured;
	struct loop loop;
	struct watch uevents, signals;
	struct mux mux;
	struct resume resume;
	struct cgroups cgroups;
	struct quiesce quiesce;
	struct disk disk;
	struct images images;
	struct keeper keeper;
	struct containers containers;
	struct runs runs;
	struct sessions sessions;
	struct dns dns;
	struct net net;
	struct relay relay;
	struct fs_mounts mounts;
	struct stop stop;
};

int agent_init(struct agent *a, int uevent_fd, struct err *e) must_check;
/* Opens the ports and sends HELLO. */
int agent_open_ports(struct agent *a, struct err *e) must_check;
/* agent-frames.c: obeys one frame of the mux, or answers why not. */
void agent_frame(struct agent *a, const struct frame *f);
/* Serves until the VM is to be switched off. */
void agent_serve(struct agent *a);

#endif
