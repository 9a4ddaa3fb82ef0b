/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going back to a checkpoint: always a new machine, on a fresh disk layer over the checkpoint's
 * frozen one. The former machine stands still until the new one answers; if that fails, it goes on
 * as if nothing had been asked.
 */
#ifndef KOSA8_SUPERVISOR_REWIND_H
#define KOSA8_SUPERVISOR_REWIND_H

#include "op.h"

/* Begins it for an operation (rewind, or start with mode rewind) whose request names the
 * "checkpoint"; ends the operation. */
void rewind_begin(struct op *op);
/* The operation is freed while its rewind is under way (the sandbox ends). */
void rewind_release(struct op *op);
/* The machine that is being started answers / ended before it did. False: it is not this one. */
bool rewind_ready(struct supervisor *s, struct machine *m);
bool rewind_died(struct supervisor *s, struct machine *m, const struct err *why);
/* The mounts of the machine that is being started; NULL: it is not this one. */
struct mounts *rewind_mounts(struct supervisor *s, const struct machine *m);

#endif
