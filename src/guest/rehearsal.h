/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One container before HELLO, on a tmpfs and with the agent's own program: so that what a kernel
 * does only the first time is in the template and not in the first run of each sandbox, and so that
 * a kernel on which containers do not work is noticed when the template is made.
 */
#ifndef KOSA8_GUEST_REHEARSAL_H
#define KOSA8_GUEST_REHEARSAL_H

#include "cgroup.h"

#define REHEARSAL_EXIT 2 /* how the agent ends when it is not the first process */
#define REHEARSAL_MS 20000

int rehearse(struct cgroups *cgroups, struct err *e) must_check;

#endif
