/* SPDX-License-Identifier: Apache-2.0 */
/* What vm.c gives to template.c, beside vm.h: a VM that boots. */
#ifndef KOSA8_VM_VM_LAUNCH_H
#define KOSA8_VM_VM_LAUNCH_H

#include "vm.h"

struct vm_boot {
	const struct vm_host *host;
	const struct vm_config *config;
	int dirfd; /* holds ram (to be filled), disk.raw, and the layer `top` */
	const char *top;
	int log_fd;
};
/* Paused before its first instruction. */
int vm_boot(const struct vm_boot *b, struct vm **ret, struct err *e) must_check;
/* Of a paused VM: the device state into fd, from its start; *ret_bytes is its length. */
int vm_save_devices(struct vm *vm, int fd, uint64_t *ret_bytes, struct err *e) must_check;
/* The most telling line of the guest's console, escaped, for an error; "" when there is none. */
void vm_console_line(struct vm *vm, char *ret, size_t size);
/* Adds the last line QEMU logged to the error; returns r. */
int vm_explain(struct vm *vm, int r, struct err *e);
/* Asks QEMU to end and waits for it. */
int vm_quit(struct vm *vm, struct err *e) must_check;

#endif
