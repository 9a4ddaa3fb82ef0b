/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One virtual machine: the narrow interface behind which the VMM process (QEMU) stands.
 *
 *   vm_start()    a new process on a template's RAM (private mapping) and a disk layer chain,
 *                 waiting for its state
 *   vm_load()     saved pages into its RAM, then the device state: RAM first, because virtio reads
 *                 its rings from RAM while the device state loads
 *   vm_run() vm_pause()
 *   vm_capture()  in a pause: changed pages and device state into two files, and the disk layer
 *                 frozen under a new one
 *   vm_attach()   an image as a SCSI LUN
 *   vm_free()     kills the process and waits for it
 *
 * A VM is never rewound in place: a rewind is vm_free() of one and vm_start() of another, so
 * nothing that a hostile guest did to the old process survives.
 *
 * The calls block; each QMP exchange has a deadline of VM_QMP_TIMEOUT_MS, after which the VM counts
 * as broken (ERR_TIMEOUT) and can only be freed. All descriptors given are duplicated as needed;
 * the caller keeps its own. The process dies with the caller (PR_SET_PDEATHSIG).
 */
#ifndef KOSA8_VM_VM_H
#define KOSA8_VM_VM_H

#include "template.h"

#include <sys/types.h>

#define VM_QMP_TIMEOUT_MS 10000
#define VM_IMAGES_MAX 60
#define VM_LAYERS_MAX 1000 /* see layer.h for how a chain is opened */

struct vm;

struct vm_image {
	uint32_t lun; /* 1.. */
	int fd;	      /* the squashfs file, read-only */
};

struct vm_start {
	const struct vm_host *host;
	const struct vm_template *template;
	int layers_dirfd;
	/* The chain of layer ids from the bottom (on the template's disk) to the writable top. */
	const char *const *layers;
	size_t layers_len;
	const struct vm_image *images;
	size_t images_len;
	int log_fd; /* QEMU's stderr */
};

int vm_start(const struct vm_start *s, struct vm **ret, struct err *e) must_check;
void vm_free(struct vm *vm);
void vm_freep(struct vm **vm);
#define cleanup_vm __attribute__((cleanup(vm_freep)))

/* pages_fd -1: the template's own RAM. The VM is then paused, ready for vm_run(). */
int vm_load(struct vm *vm, int pages_fd, int device_fd, struct err *e) must_check;
int vm_run(struct vm *vm, struct err *e) must_check;
/* Ends a merge that is under way (VM_EVENT_MERGE_FAILED: to be asked for again), and writes the
 * host's cache of the disk out before the guest stands still. */
int vm_pause(struct vm *vm, struct err *e) must_check;

struct vm_capture {
	uint64_t pages;	      /* changed pages written, zero pages included */
	uint64_t zero_pages;  /* of these, those that are all zero and take no space */
	uint64_t pages_bytes; /* of the pages file */
	uint64_t device_bytes;
	int64_t scan_us, copy_us, device_us, disk_us;
};
/* The VM is paused. Afterwards the top layer is new_layer (made by layer_create() beforehand on the
 * former top), and the former top is frozen. On failure the VM can go on: the disk has changed
 * layers only if *ret_disk_moved is true. */
int vm_capture(struct vm *vm, int pages_fd, int device_fd, const char *new_layer,
	struct vm_capture *ret, bool *ret_disk_moved, struct err *e) must_check;

/* Writes into the RAM of a running VM, at an address that the guest named: -ERANGE or ERR_PROTOCOL
 * when the range is not its RAM. Never while the VM is loaded, paused or captured
 * (ERR_WRONG_STATE): what is captured is what the guest left. */
int vm_check_ram(const struct vm *vm, uint64_t physical, size_t len) must_check;
int vm_write_ram(
	struct vm *vm, uint64_t physical, const void *data, size_t len, struct err *e) must_check;

int vm_attach(struct vm *vm, const struct vm_image *image, struct err *e) must_check;

/* Merges the layer below `child` into child (a block job of the running VM), when both are in its
 * chain; one at a time. Done is reported through vm_events() as VM_EVENT_MERGED. */
int vm_merge(struct vm *vm, const char *child, struct err *e) must_check;

/* The host's ends of the ports (non-blocking stream sockets) and a descriptor that is readable when
 * the process has ended. Borrowed. */
int vm_mux_fd(const struct vm *vm);
int vm_resume_fd(const struct vm *vm);
int vm_net_fd(const struct vm *vm);
int vm_fs_fd(const struct vm *vm);
int vm_pidfd(const struct vm *vm);
pid_t vm_pid(const struct vm *vm);

/* The QMP descriptor, and what was heard, oldest first: call vm_events() until VM_EVENT_NONE when
 * the descriptor is readable and after every other call (which may have read events). */
int vm_qmp_fd(const struct vm *vm);
enum vm_event {
	VM_EVENT_NONE,
	VM_EVENT_SHUTDOWN, /* the guest powered down */
	VM_EVENT_PANIC,	   /* or reset itself */
	VM_EVENT_IO_ERROR, /* host disk full: QEMU stopped the guest (werror=stop) */
	VM_EVENT_MERGED,
	VM_EVENT_MERGE_FAILED,
	VM_EVENT_GONE, /* QMP closed */
};
enum vm_event vm_events(struct vm *vm);
/* The end of the process: exit code or 128 + signal; waits for it. */
int vm_wait(struct vm *vm);

#endif
