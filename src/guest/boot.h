/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What PID 1 does once, in this order: console, modules, root, file systems, kernel settings,
 * network. Afterwards nothing of the initramfs is reachable and the kernel takes no more modules.
 *
 * The root is moved to a tmpfs because pivot_root(2), which every container needs, does not work
 * on the initramfs itself (kernel: Documentation/filesystems/ramfs-rootfs-initramfs.rst).
 */
#ifndef KOSA8_GUEST_BOOT_H
#define KOSA8_GUEST_BOOT_H

#include "../base/err.h"

#define PATH_IMAGES "/run/images" /* one folder an image, named by its digest */
#define PATH_DISK "/disk"
#define PATH_MERGED "/merged" /* where a container's root is put together, in its own namespace */

/* Descriptors 0 to 2: /dev/null and the kernel's log. */
int boot_console(struct err *e) must_check;
int boot_root(struct err *e) must_check;
int boot_filesystems(struct err *e) must_check;
/* Last: no module can be loaded afterwards. */
int boot_settings(struct err *e) must_check;
int boot_loopback(struct err *e) must_check;

#endif
