/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's own disk, /dev/vda with ext4, mounted on /disk when the sandbox is configured:
 *
 *   /disk/workspace   /workspace of all containers; kept
 *   /disk/runs/ID     upper and work folder of one run's overlay
 *   /disk/trash/      what is being removed in the background (trash.h)
 */
#ifndef KOSA8_GUEST_DISK_H
#define KOSA8_GUEST_DISK_H

#include "../base/err.h"

#include <stdbool.h>

struct disk {
	int fd;	      /* /disk; -1 before disk_mount() */
	int runs_fd;  /* /disk/runs */
	int trash_fd; /* /disk/trash */
};

void disk_init(struct disk *d);
/* Also of a disk that was used before: what an earlier start left in runs/ becomes trash. */
int disk_mount(struct disk *d, struct err *e) must_check;
/* Makes runs/ID/upper and runs/ID/work. */
int disk_run_create(struct disk *d, const char *id, struct err *e) must_check;
/* Removes runs/ID at once if that is a matter of a few small entries, else moves it to the trash.
 * True: there is something in the trash now. */
bool disk_run_discard(struct disk *d, const char *id);
/* Writes all to the disk and unmounts it. */
int disk_unmount(struct disk *d, struct err *e) must_check;

#endif
