/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine offers to run a VM with: programs, guest assets, the accelerator. */
#ifndef KOSA8_VM_HOST_H
#define KOSA8_VM_HOST_H

#include "../base/err.h"

enum vm_accel { VM_ACCEL_TCG, VM_ACCEL_KVM, VM_ACCEL_COUNT };
const char *vm_accel_name(enum vm_accel a);

enum vm_kvm_state {
	VM_KVM_USABLE,
	VM_KVM_NO_DEVICE,    /* /dev/kvm is missing */
	VM_KVM_NOT_READABLE, /* it is there, but this user may not open it */
	VM_KVM_NO_HARDWARE, /* it opens, but the CPU shows neither vmx nor svm, or no VM can be made
			     */
	VM_KVM_STATE_COUNT
};
enum vm_kvm_state vm_kvm_probe(void);

struct vm_host {
	enum vm_accel accel;
	char qemu[256]; /* path of qemu-system-x86_64 */
	char qemu_img[256];
	char mke2fs[256];
	char qboot[256];   /* qboot.rom */
	char kernel[4096]; /* vmlinuz */
	char initramfs[4096];
	char qemu_version[64]; /* "7.2.22" */
	char machine[32];      /* "q35" */
	char cpu[64];	       /* "max" or "host:<model name hash>" */
	char assets_hash[65];  /* of kernel + initramfs: kosa8's guest side */
};
/* Finds all of it. KOSA8_ACCEL=tcg|kvm overrides the choice of accelerator; assets_dir holds
 * vmlinuz and initramfs. The version and hashes are cached in cache_dirfd by the files' identity
 * (device, inode, size, mtime, ctime). Errors name what is missing and the package it is in. */
int vm_host_probe(
	const char *assets_dir, int cache_dirfd, struct vm_host *ret, struct err *e) must_check;

#endif
