/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's command line. All files and streams are descriptors at fixed numbers. */
#ifndef KOSA8_VM_QEMU_ARGS_H
#define KOSA8_VM_QEMU_ARGS_H

#include "template.h"

enum qemu_fd {
	QEMU_FD_RAM,
	QEMU_FD_OUT, /* stdout and stderr: the log */
	QEMU_FD_ERR,
	QEMU_FD_QMP,
	QEMU_FD_MUX,
	QEMU_FD_RESUME,
	QEMU_FD_NET,
	QEMU_FD_FS,
	QEMU_FD_TOP_RW, /* the writable top layer, and the same file once more read-only: QEMU */
	QEMU_FD_TOP_RO, /* reopens it so when it becomes a backing file */
	QEMU_FD_KERNEL, /* boot only */
	QEMU_FD_INITRAMFS,
	QEMU_FD_COUNT
};

#define QEMU_TOP_SET 1 /* the fd set of the top layer that QEMU starts with */
#define QEMU_CONSOLE "console"
#define QEMU_SCSI_BUS "scsi.0"

/* boot: a template is made: shared RAM, a kernel, a console that is kept in memory. Else: a private
 * mapping, waiting for its state. top is the id of the top layer. tsc_khz: the rate of the time
 * stamp counter, for an emulated guest that boots; 0: it finds out itself. */
int qemu_args(const struct vm_host *host, const struct vm_config *config, bool boot,
	const char *top, uint64_t tsc_khz, char ***ret, struct err *e) must_check;

#endif
