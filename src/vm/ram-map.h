/* SPDX-License-Identifier: Apache-2.0 */
/* Where a VMM process has its RAM file mapped, and reading and writing it from outside. */
#ifndef KOSA8_VM_RAM_MAP_H
#define KOSA8_VM_RAM_MAP_H

#include "../base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RAM_PAGE 4096u
#define RAM_REGIONS_MAX 64 /* QEMU has one; madvise() may split it */

struct ram_region {
	uint64_t address, bytes, offset; /* in the process; in the RAM file */
};
struct ram_map {
	pid_t pid;
	uint64_t bytes; /* of the RAM file; the regions cover it, in order */
	struct ram_region regions[RAM_REGIONS_MAX];
	size_t len;
};

/* By device and inode of ram_fd. ERR_INTERNAL when RAM is not mapped whole, private, writable. */
int ram_map_find(pid_t pid, int ram_fd, struct ram_map *ret, struct err *e) must_check;

/* Pages of RAM, by index; gathered into or scattered from one buffer. */
struct ram_run {
	uint64_t first, pages;
};
#define RAM_RUNS_AT_ONCE 256
int ram_map_read(const struct ram_map *m, const struct ram_run *runs, size_t len, void *ret,
	struct err *e) must_check;
int ram_map_write(const struct ram_map *m, const struct ram_run *runs, size_t len, const void *data,
	struct err *e) must_check;

/* Where a guest-physical range begins in the RAM file (machine type q35). -ERANGE when it is not
 * whole in one piece of RAM, above the first MB. */
int ram_offset(uint64_t ram_bytes, uint64_t physical, uint64_t len, uint64_t *ret) must_check;
/* One piece. */
int ram_map_write_at(const struct ram_map *m, uint64_t offset, const void *data, size_t len,
	struct err *e) must_check;

/* A clear error when this process cannot be looked into (Yama, another user). */
int ram_map_denied(int errnum, struct err *e);

#endif
