/* SPDX-License-Identifier: Apache-2.0 */
/* What QEMU and its helper may still do once they run (see the top of confine.c). */
#ifndef KOSA8_VM_CONFINE_H
#define KOSA8_VM_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct confine_file {
	int fd;	       /* number in the child */
	bool writable; /* else read-only */
};

struct confine {
	pid_t parent;	    /* dies with it */
	const char *prefix; /* where QEMU is installed, when not below /usr; or NULL */
	bool kvm;	    /* needs /dev/kvm */
	/* Descriptor 0 is the RAM file, open read-only, and the open of RAM read-write that QEMU
	 * does is answered with it. */
	bool ram_is_fd0;
	/* Files that QEMU opens itself, as /proc/self/fd/N. */
	const struct confine_file *files;
	size_t files_len;
};

/* For spawn.confine: runs in the child before exec; ctx is a struct confine. */
int confine_child(void *ctx);

#endif
