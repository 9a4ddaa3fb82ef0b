/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Disk layers: qcow2 files LAYERS/ID.qcow2, each over another layer or over a template's disk.raw.
 * The files name no backing file themselves: the chain is the catalog's, and QEMU is given it as
 * descriptors, so folders can be moved and nothing outside can be opened through a header.
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
/* Offline, for layers no VM has open: child takes in what it lacks of parent's data. child reads
 * the same before, during and after; parent's file is not changed and can be removed afterwards. */
int layer_merge(const struct vm_host *host, int layers_dirfd, const char *child, const char *parent,
	struct err *e) must_check;

#endif
