/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages a sandbox changed since its template, found, written, and put back.
 *
 * Found: in the process's private mapping of the template's RAM they are the anonymous pages:
 * PAGEMAP_SCAN (Linux 6.7, include/uapi/linux/fs.h) for present-or-swapped and not file-backed,
 * else /proc/PID/pagemap bits 63, 62, 61 (Linux Documentation/admin-guide/mm/pagemap.rst).
 *
 * The file, little-endian:
 *   header   char[8] "k8pages1", u64 ram_bytes, u64 runs, u64 data_pages, u64 data_offset
 *   runs     at 64: runs x { u64 page index in RAM, u32 pages, u32 kind: 0 data, 1 zero },
 *            ascending, not overlapping
 *   data     at data_offset (a multiple of 4096 behind the runs, the gap is a hole): data_pages x
 *            4096 bytes, in the order of the runs; the end of the file
 */
#ifndef KOSA8_VM_PAGES_H
#define KOSA8_VM_PAGES_H

#include "../base/err.h"

#include <stdint.h>
#include <sys/types.h>

struct pages_info {
	uint64_t pages, zero_pages, file_bytes;
	int64_t scan_us, copy_us;
};

/* Of the paused process pid, whose RAM is the mapping of the file ram_fd. */
int pages_save(pid_t pid, int ram_fd, int out_fd, struct pages_info *ret, struct err *e) must_check;
/* Whether the file is whole and fits a VM with that much RAM: ERR_CORRUPT. */
int pages_check(int in_fd, uint64_t ram_bytes, struct err *e) must_check;
/* Into a process that has not run yet. Everything in the file is checked before the first write:
 * ERR_CORRUPT. */
int pages_load(int in_fd, pid_t pid, int ram_fd, struct err *e) must_check;

#endif
