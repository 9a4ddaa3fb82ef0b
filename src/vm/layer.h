/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Disk layers: qcow2 files LAYERS/ID.qcow2, each over another layer or over a template's disk.raw.
 * The files name no backing file themselves: the chain is the catalog's, and QEMU is given it as
 * descriptors, so folders can be moved and nothing outside can be opened through a header.
 *
 * How long a chain may be: up to VM_LAYERS_MAX (1000) works, but starting a VM takes 0.1 s with 50
 * layers, 0.6 s with 300 and 2.3 s with 1000, and freezing the disk in a checkpoint's pause 6 ms,
 * 70 ms and 1.2 s; each layer costs QEMU two descriptors and 0.25 MB. Merge what no checkpoint
 * needs; past some 100 layers it is felt.
 */
#ifndef KOSA8_VM_LAYER_H
#define KOSA8_VM_LAYER_H

#include "host.h"

#include <stdint.h>

/* An empty layer of this virtual size. ERR_NO_SPACE, ERR_EXISTS. */
int layer_create(const struct vm_host *host, int layers_dirfd, const char *id, uint64_t size_bytes,
	struct err *e) must_check;
/* Allocated bytes. */
int layer_size(int layers_dirfd, const char *id, uint64_t *ret, struct err *e) must_check;
int layer_remove(int layers_dirfd, const char *id, struct err *e) must_check;
/* Offline, for layers no VM has open (seconds per GB): child takes in what it lacks of parent's
 * data. child reads the same before, during and after; parent's file is not changed and can be
 * removed afterwards. */
int layer_merge(const struct vm_host *host, int layers_dirfd, const char *child, const char *parent,
	struct err *e) must_check;

#endif
