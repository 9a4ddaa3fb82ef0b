/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's own news of devices (netlink, NETLINK_KOBJECT_UEVENT). Only the fact that something
 * came or went is used: who waits for a device looks again in /sys. */
#ifndef KOSA8_GUEST_UEVENT_H
#define KOSA8_GUEST_UEVENT_H

#include "../base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* A non-blocking socket. */
int uevent_open(struct err *e) must_check;
/* Takes all that is there; true if there was anything from the kernel. */
bool uevent_drain(int fd);
/* For boot only: blocks until there is news; false when the deadline (clock_mono_ms) has passed. */
bool uevent_wait(int fd, int64_t deadline_ms);

#endif
