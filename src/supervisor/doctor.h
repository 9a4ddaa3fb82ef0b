/* SPDX-License-Identifier: Apache-2.0 */
/* `kosa8 doctor`'s questions about the engine: programs, guest assets, accelerator, what the kernel
 * allows. */
#ifndef KOSA8_SUPERVISOR_DOCTOR_H
#define KOSA8_SUPERVISOR_DOCTOR_H

/* {"checks":[{"name","status":"ok"|"warn"|"fail","text","hint"}],"qemu_version":...} on stdout.
 * Returns the exit status: 0 unless it cannot be printed. */
int doctor_print(void);

#endif
