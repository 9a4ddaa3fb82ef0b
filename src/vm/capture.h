/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KOSA8_VM_CAPTURE_H
#define KOSA8_VM_CAPTURE_H

#include "vm.h"

/* vm_capture() of a VM that is known to be paused. */
int capture(struct vm *vm, int pages_fd, int device_fd, const char *new_layer,
	struct vm_capture *ret, bool *ret_disk_moved, struct err *e) must_check;

#endif
