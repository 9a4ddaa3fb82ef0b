/* SPDX-License-Identifier: Apache-2.0 */
/* run.c, for the other files of the runs. */
#ifndef KOSA8_GUEST_RUN_INTERNAL_H
#define KOSA8_GUEST_RUN_INTERNAL_H

#include "run.h"

/* A run with this client, or NULL: RUN_FAILED was sent. */
struct run *run_new(struct runs *rs, enum run_kind kind, uint32_t stream);
void run_set_over(struct runs *rs, struct run *r);
/* Ends the whole tree; what follows comes through runs_reaped(). */
void run_force(struct run *r, enum agent_end how);
/* To the program itself. */
void run_signal(struct run *r, int signal);

#endif
