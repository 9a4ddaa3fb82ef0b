/* SPDX-License-Identifier: Apache-2.0 */
#include "page-scan.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

/* include/uapi/linux/fs.h of Linux 6.7 and later. */
struct scan_region {
	uint64_t start, end, categories;
};
struct scan_arg {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, category_inverted,
		category_mask, category_anyof_mask, return_mask;
};
#define SCAN_IOCTL _IOWR('f', 16, struct scan_arg)
#define SCAN_FILE (1u << 2)
#define SCAN_PRESENT (1u << 3)
#define SCAN_SWAPPED (1u << 4)

/* Documentation/admin-guide/mm/pagemap.rst */
#define PAGEMAP_PRESENT_OR_SWAPPED (3ULL << 62)
#define PAGEMAP_FILE (1ULL << 61)

/* Not more: with a longer vector Linux (seen in 6.18) fills it in several rounds and then reports
 * the end of an earlier one in walk_end, so that a caller sees pages twice. */
#define BATCH 512

struct page_scan {
	const struct ram_map *map;
	int fd;
	bool plain;
	size_t region;	  /* the one being scanned */
	uint64_t address; /* scanned so far: up to here */
	size_t at, len;	  /* of runs */
	struct ram_run runs[BATCH];
	union {
		struct scan_region regions[BATCH];
		uint64_t entries[BATCH];
	} batch;
};

int page_scan_open(const struct ram_map *m, bool plain, struct page_scan **ret, struct err *e)
{
	struct page_scan *s = calloc(1, sizeof(*s));
	char path[64];

	if (!s)
		return err_errno(e, ENOMEM, "looking for changed pages");
	(void)snprintf(path, sizeof(path), "/proc/%d/pagemap", m->pid);
	s->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (s->fd < 0) {
		int r = ram_map_denied(errno, e);
		page_scan_free(s);
		return r;
	}
	s->map = m;
	s->plain = plain;
	page_scan_rewind(s);
	*ret = s;
	return 0;
}

void page_scan_free(struct page_scan *s)
{
	if (!s)
		return;
	(void)fd_close(s->fd);
	free(s);
}

void page_scan_freep(struct page_scan **s)
{
	page_scan_free(*s);
	*s = NULL;
}

void page_scan_rewind(struct page_scan *s)
{
	s->region = 0;
	s->address = s->map->regions[0].address;
	s->at = s->len = 0;
}

static void add(struct page_scan *s, const struct ram_region *g, uint64_t start, uint64_t end)
{
	s->runs[s->len++] = (struct ram_run){.first = (g->offset + (start - g->address)) / RAM_PAGE,
		.pages = (end - start) / RAM_PAGE};
}

static int fill_by_scan(struct page_scan *s, const struct ram_region *g)
{
	struct scan_arg arg = {.size = sizeof(arg),
		.start = s->address,
		.end = g->address + g->bytes,
		.vec = (uintptr_t)s->batch.regions,
		.vec_len = BATCH,
		.category_inverted = SCAN_FILE,
		.category_mask = SCAN_FILE,
		.category_anyof_mask = SCAN_PRESENT | SCAN_SWAPPED,
		.return_mask = SCAN_PRESENT | SCAN_SWAPPED};
	int n = ioctl(s->fd, SCAN_IOCTL, &arg);

	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++)
		add(s, g, s->batch.regions[i].start, s->batch.regions[i].end);
	/* Not arg.walk_end: when the kernel fills its own buffer several times in one call, it
	 * leaves there where the last but one filling ended (Linux 6.18). */
	s->address = n == BATCH ? s->batch.regions[n - 1].end : g->address + g->bytes;
	return 0;
}

static bool is_changed(uint64_t entry)
{
	return (entry & PAGEMAP_PRESENT_OR_SWAPPED) && !(entry & PAGEMAP_FILE);
}

static int fill_by_pagemap(struct page_scan *s, const struct ram_region *g)
{
	uint64_t left = (g->address + g->bytes - s->address) / RAM_PAGE, run = 0;
	size_t want = left < BATCH ? left : BATCH;
	ssize_t got = fd_pread_full(s->fd, s->batch.entries, want * sizeof(uint64_t),
		(off_t)(s->address / RAM_PAGE * sizeof(uint64_t)));

	if (got < 0)
		return (int)got;
	if ((size_t)got != want * sizeof(uint64_t))
		return -ESRCH;
	for (size_t i = 0; i <= want; i++) {
		if (i < want && is_changed(s->batch.entries[i])) {
			run++;
		} else if (run > 0) {
			uint64_t end = s->address + i * RAM_PAGE;
			add(s, g, end - run * RAM_PAGE, end);
			run = 0;
		}
	}
	s->address += want * RAM_PAGE;
	return 0;
}

/* The next batch of runs: 0 at the end of RAM. */
static int fill(struct page_scan *s, struct err *e)
{
	s->at = s->len = 0;
	while (s->region < s->map->len && s->len == 0) {
		const struct ram_region *g = &s->map->regions[s->region];
		if (s->address >= g->address + g->bytes) {
			if (++s->region < s->map->len)
				s->address = s->map->regions[s->region].address;
			continue;
		}
		int r = s->plain ? fill_by_pagemap(s, g) : fill_by_scan(s, g);
		if (r == -ENOTTY || r == -EINVAL) { /* a kernel without PAGEMAP_SCAN */
			if (s->plain)
				return err_errno(e, -r, "looking for changed pages");
			s->plain = true;
		} else if (r < 0) {
			return ram_map_denied(-r, e);
		}
	}
	return s->len > 0;
}

int page_scan_next(struct page_scan *s, struct ram_run *ret, struct err *e)
{
	if (s->at == s->len) {
		int r = fill(s, e);
		if (r <= 0)
			return r;
	}
	*ret = s->runs[s->at++];
	return 1;
}
