/* SPDX-License-Identifier: Apache-2.0 */
/* The QEMU process: started, confined, spoken to. What it is used for is in vm.c. */
#ifndef KOSA8_VM_QEMU_H
#define KOSA8_VM_QEMU_H

#include "qemu-args.h"
#include "qmp.h"

#include <stdbool.h>
#include <sys/types.h>

struct qemu {
	pid_t pid; /* 0: none, or waited for */
	int pidfd;
	int status;		  /* once waited for: exit code or 128 + signal */
	int mux, resume, net, fs; /* our ends, non-blocking */
	struct qmp *qmp;
	int log_fd; /* owned duplicate, -1: none */
	off_t log_start;
};

struct qemu_start {
	const struct vm_host *host;
	const struct vm_config *config;
	bool boot;
	const char *top;
	/* Borrowed, as in enum qemu_fd; -1 where there is none. RAM is read-only unless boot. */
	int ram_fd, top_rw_fd, top_ro_fd, kernel_fd, initramfs_fd, log_fd;
};

/* The error has the last line that QEMU logged. */
int qemu_start(const struct qemu_start *s, struct qemu *ret, struct err *e) must_check;
/* Kills it, waits for it, releases everything. Accepts an initialised or released one. */
void qemu_release(struct qemu *q);
void qemu_init(struct qemu *q);
/* The end of the process; waits for it. */
int qemu_wait(struct qemu *q);
/* Adds the last logged line to the error, when there is one. */
int qemu_explain(const struct qemu *q, struct err *e);

#endif
