/* SPDX-License-Identifier: Apache-2.0 */
/* The rate of this machine's time stamp counter, which an emulated guest reads as its own. */
#ifndef KOSA8_VM_TSC_H
#define KOSA8_VM_TSC_H

#include <stdint.h>

/* In kHz, right to about 0.05 % however busy the machine is; takes 50 ms. 0: not known. */
uint64_t tsc_measure_khz(void);

#endif
