/* SPDX-License-Identifier: Apache-2.0 */
/* The virtio-serial ports, by the name that the host gave them. */
#ifndef KOSA8_GUEST_PORT_H
#define KOSA8_GUEST_PORT_H

#include "../base/err.h"

#include <stdint.h>

/* Waits for the port to appear, at most until the deadline (clock_mono_ms). Returns a non-blocking
 * descriptor. A port can be open once at a time. */
int port_open(const char *name, int uevent_fd, int64_t deadline_ms, struct err *e) must_check;

#endif
