/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KOSA8_VM_TEMPLATE_MAKE_H
#define KOSA8_VM_TEMPLATE_MAKE_H

#include "template.h"

/* Fills the empty folder dirfd with ram, device, disk.raw and meta.json, all of them on disk. */
int template_make(const struct vm_host *host, const struct vm_config *config, const char *key,
	int dirfd, struct err *e) must_check;

#endif
