/* SPDX-License-Identifier: Apache-2.0 */
/* What a run's child reports, and what became of its program. */
#ifndef KOSA8_GUEST_RUN_REPORT_H
#define KOSA8_GUEST_RUN_REPORT_H

#include "run.h"

/* Takes in the next report. 1: there was one. */
int run_report_step(struct runs *rs, struct run *r);
/* The child ended without having reported what became of the program: somebody killed it. */
void run_lost(struct runs *rs, struct run *r, int status);
/* It cannot be started: RUN_FAILED. */
void run_fail(struct runs *rs, struct run *r, const struct err *e);

#endif
