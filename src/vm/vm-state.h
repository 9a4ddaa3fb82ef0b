/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of struct vm, for the files that work on one. */
#ifndef KOSA8_VM_VM_STATE_H
#define KOSA8_VM_VM_STATE_H

#include "chain.h"
#include "qemu.h"
#include "ram-map.h"
#include "vm.h"

enum vm_state { VM_WAITING, VM_PAUSED, VM_RUNNING };

struct vm {
	struct qemu qemu;
	struct chain chain;
	int ram_fd;
	enum vm_state state;
	struct ram_map ram;	     /* len 0: not looked for yet */
	uint64_t luns;		     /* bit N: LUN N is in use */
	enum vm_event pending_event; /* of a merge that a checkpoint had to end */
	bool gone;		     /* VM_EVENT_GONE was reported */
};

/* states: bits 1 << enum vm_state. */
int vm_require(const struct vm *vm, unsigned states, const char *what, struct err *e) must_check;
/* Ends a merge that is under way: frozen layers and running jobs exclude each other. */
int vm_end_merge(struct vm *vm, struct err *e) must_check;

#endif
