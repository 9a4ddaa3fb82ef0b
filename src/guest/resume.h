/* SPDX-License-Identifier: Apache-2.0 */
/* The kosa8.resume port: one fixed-size record after every time the VM starts to run, and what it
 * does to the clock and to the kernel's random numbers. */
#ifndef KOSA8_GUEST_RESUME_H
#define KOSA8_GUEST_RESUME_H

#include "../proto/agent.h"
#include "loop.h"

struct resume {
	struct watch port;
	unsigned char in[AGENT_RESUME_SIZE];
	size_t len;
};

void resume_init(struct resume *r);
/* 1 with the next valid record in *ret, 0 when there is none yet. Bytes that are no record are
 * skipped. */
int resume_next(struct resume *r, struct agent_resume *ret) must_check;

/* Sets the clock when it is off by more than tolerance_ns. A value before 2020 is ignored. */
void resume_set_clock(uint64_t wall_ns, uint64_t tolerance_ns);
/* Mixes the bytes in with full credit and reseeds, so that two VMs from one state differ at once
 * (random(4)). */
void resume_add_entropy(const unsigned char entropy[static AGENT_ENTROPY_SIZE]);

#endif
