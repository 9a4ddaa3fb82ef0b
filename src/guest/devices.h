/* SPDX-License-Identifier: Apache-2.0 */
/* Which device nodes containers may open: a BPF program on the control group of all runs, which
 * their own groups inherit and nothing in them can take off. It holds wherever a node comes from:
 * /dev, an image's layer, or mknod(2), which docker's capabilities allow. */
#ifndef KOSA8_GUEST_DEVICES_H
#define KOSA8_GUEST_DEVICES_H

#include "../base/err.h"

int devices_restrict(int cgroup_fd, struct err *e) must_check;

#endif
