/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changed pages of a private mapping of RAM, in ascending order: present or swapped, and not
 * file-backed. In constant memory: a scan holds one batch of the kernel's answer.
 */
#ifndef KOSA8_VM_PAGE_SCAN_H
#define KOSA8_VM_PAGE_SCAN_H

#include "ram-map.h"

#include <stdbool.h>

struct page_scan;
/* plain: only /proc/PID/pagemap, as on kernels before 6.7. The map outlives the scan. */
int page_scan_open(
	const struct ram_map *m, bool plain, struct page_scan **ret, struct err *e) must_check;
void page_scan_free(struct page_scan *s);
void page_scan_freep(struct page_scan **s);
#define cleanup_page_scan __attribute__((cleanup(page_scan_freep)))
/* 1 with the next run (not merged with its neighbours), 0 at the end. */
int page_scan_next(struct page_scan *s, struct ram_run *ret, struct err *e) must_check;
/* From the start again. */
void page_scan_rewind(struct page_scan *s);

#endif
