/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's own disk, /dev/vda with ext4, mounted on /disk when the sandbox is configured:
 *
 *   /disk/workspace   /workspace of all containers; kept
 *   /disk/runs/NAME   upper and work folder of one run's overlay (keeper.h)
 *   /disk/containers/ID  layer, record and log of a kept container (containers.h); kept
 *   /disk/trash       what is being removed in the background (trash.h)
 */
#ifndef KOSA8_GUEST_DISK_H
#define KOSA8_GUEST_DISK_H

#include "../base/err.h"

struct disk {
	int fd;		   /* /disk; -1 before disk_mount() */
	int runs_fd;	   /* /disk/runs */
	int containers_fd; /* /disk/containers */
	int trash_fd;	   /* /disk/trash */
};

void disk_init(struct disk *d);
/* Also of a disk that was used before: what an earlier start left in runs/ becomes trash. */
int disk_mount(struct disk *d, struct err *e) must_check;
/* Writes all to the disk and unmounts it. */
int disk_unmount(struct disk *d, struct err *e) must_check;

#endif
