/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel modules from the initramfs: /modules/list names the files, in an order in which each can
 * be loaded (tools/make-guest computes it). */
#ifndef KOSA8_GUEST_MODULES_H
#define KOSA8_GUEST_MODULES_H

#include "../base/err.h"

int modules_load(const char *dir, struct err *e) must_check;
/* Removes the files again: they are RAM. */
void modules_discard(const char *dir);

#endif
