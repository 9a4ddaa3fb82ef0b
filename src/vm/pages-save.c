/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory use is constant whatever the guest did: one buffer for page contents and one for a part of
 * the table of runs. The table comes before the data, so saving scans twice: once to count the
 * pages, which bounds the table, and once to copy them.
 */
#include "pages.h"

#include "../base/buf.h"
#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/space.h"
#include "page-scan.h"
#include "pages-format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUN_PAGES_MAX (1u << 20)
#define TABLE_RUNS 4096u /* 64 KiB of the table at once */

static uint64_t round_up(uint64_t n)
{
	return (n + RAM_PAGE - 1) / RAM_PAGE * RAM_PAGE;
}

struct saver {
	int fd;
	const struct ram_map *map;
	struct pages_header header;
	struct buf table;      /* encoded runs that are not in the file yet */
	uint64_t table_offset; /* where they go */
	struct ram_run run;    /* the run being built; pages 0: none */
	enum pages_kind run_kind;
	struct ram_run chunk[RAM_RUNS_AT_ONCE]; /* what to read next, */
	size_t chunk_len;
	uint64_t chunk_pages; /* at most PAGES_CHUNK */
	unsigned char *pages; /* PAGES_CHUNK of contents */
	uint64_t zero_pages;
};

static int write_at(int fd, const void *data, size_t len, uint64_t offset, struct err *e)
{
	int r = fd_pwrite_all(fd, data, len, (off_t)offset);

	return r < 0 ? err_errno(e, -r, "writing the changed pages") : 0;
}

static int flush_table(struct saver *s, struct err *e)
{
	if (buf_failed(&s->table))
		return err_errno(e, ENOMEM, "writing the changed pages");
	int r = write_at(s->fd, s->table.data, s->table.len, s->table_offset, e);
	s->table_offset += s->table.len;
	buf_reset(&s->table);
	return r;
}

static int end_run(struct saver *s, struct err *e)
{
	if (s->run.pages == 0)
		return 0;
	buf_put_u64(&s->table, s->run.first);
	buf_put_u32(&s->table, (uint32_t)s->run.pages);
	buf_put_u32(&s->table, s->run_kind);
	s->run.pages = 0;
	s->header.runs++;
	if (PAGES_HEADER_SIZE + s->header.runs * PAGES_RUN_SIZE > s->header.data_offset)
		return err_set(e, ERR_INTERNAL, 0, "the paused VM's memory changed meanwhile");
	return s->table.len >= (size_t)TABLE_RUNS * PAGES_RUN_SIZE ? flush_table(s, e) : 0;
}

static int add_page(struct saver *s, uint64_t index, enum pages_kind kind, struct err *e)
{
	if (s->run.pages > 0 && s->run_kind == kind && s->run.first + s->run.pages == index &&
		s->run.pages < RUN_PAGES_MAX) {
		s->run.pages++;
		return 0;
	}
	int r = end_run(s, e);
	s->run = (struct ram_run){.first = index, .pages = 1};
	s->run_kind = kind;
	return r;
}

static bool is_zero(const unsigned char *page)
{
	for (size_t i = 0; i < RAM_PAGE; i += 64) {
		uint64_t w[8];
		memcpy(w, page + i, sizeof(w));
		if (w[0] | w[1] | w[2] | w[3] | w[4] | w[5] | w[6] | w[7])
			return false;
	}
	return true;
}

/* Reads what the chunk lists, moves the pages that are not zero together, and writes them. */
static int flush_chunk(struct saver *s, struct err *e)
{
	uint64_t from = 0, to = 0;
	int r = ram_map_read(s->map, s->chunk, s->chunk_len, s->pages, e);

	for (size_t i = 0; r >= 0 && i < s->chunk_len; i++) {
		for (uint64_t p = 0; r >= 0 && p < s->chunk[i].pages; p++, from++) {
			unsigned char *page = s->pages + from * RAM_PAGE;
			bool zero = is_zero(page);
			r = add_page(s, s->chunk[i].first + p, zero ? PAGES_ZERO : PAGES_DATA, e);
			if (zero) {
				s->zero_pages++;
				continue;
			}
			if (to != from)
				memcpy(s->pages + to * RAM_PAGE, page, RAM_PAGE);
			to++;
		}
	}
	if (r < 0)
		return r;
	r = write_at(s->fd, s->pages, to * RAM_PAGE,
		s->header.data_offset + s->header.data_pages * RAM_PAGE, e);
	s->header.data_pages += to;
	s->chunk_len = 0;
	s->chunk_pages = 0;
	return r;
}

static int add_run(struct saver *s, struct ram_run run, struct err *e)
{
	while (run.pages > 0) {
		uint64_t room = PAGES_CHUNK - s->chunk_pages;
		uint64_t n = run.pages < room ? run.pages : room;
		s->chunk[s->chunk_len++] = (struct ram_run){.first = run.first, .pages = n};
		s->chunk_pages += n;
		run.first += n;
		run.pages -= n;
		if (s->chunk_pages < PAGES_CHUNK && s->chunk_len < RAM_RUNS_AT_ONCE)
			continue;
		int r = flush_chunk(s, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int write_header(struct saver *s, struct err *e)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, PAGES_HEADER_SIZE);
	buf_put(&b, PAGES_MAGIC, 8);
	buf_put_u64(&b, s->header.ram_bytes);
	buf_put_u64(&b, s->header.runs);
	buf_put_u64(&b, s->header.data_pages);
	buf_put_u64(&b, s->header.data_offset);
	if (buf_failed(&b))
		return err_errno(e, ENOMEM, "writing the changed pages");
	return write_at(s->fd, b.data, b.len, 0, e);
}

static int copy_pages(struct saver *s, struct page_scan *scan, struct err *e)
{
	struct ram_run run;
	int r;

	while ((r = page_scan_next(scan, &run, e)) > 0)
		if ((r = add_run(s, run, e)) < 0)
			return r;
	if (r < 0 || (r = flush_chunk(s, e)) < 0 || (r = end_run(s, e)) < 0 ||
		(r = flush_table(s, e)) < 0)
		return r;
	/* With nothing but zero pages nothing has been written behind the table. */
	uint64_t size = s->header.data_offset + s->header.data_pages * RAM_PAGE;
	if (ftruncate(s->fd, (off_t)size) < 0)
		return err_errno(e, errno, "writing the changed pages");
	return write_header(s, e);
}

static int count_pages(struct page_scan *scan, uint64_t *ret, struct err *e)
{
	struct ram_run run;
	uint64_t pages = 0;
	int r;

	while ((r = page_scan_next(scan, &run, e)) > 0)
		pages += run.pages;
	*ret = pages;
	return r;
}

static void saver_release(struct saver *s)
{
	buf_release(&s->table);
	free(s->pages);
}

int pages_save(pid_t pid, int ram_fd, int out_fd, struct pages_info *ret, struct err *e)
{
	struct ram_map map;
	cleanup_page_scan struct page_scan *scan = NULL;
	int64_t start_us = clock_mono_us();
	uint64_t pages = 0;
	int r;

	if ((r = ram_map_find(pid, ram_fd, &map, e)) < 0 ||
		(r = page_scan_open(&map, false, &scan, e)) < 0 ||
		(r = count_pages(scan, &pages, e)) < 0)
		return r;
	int64_t scanned_us = clock_mono_us();
	__attribute__((cleanup(saver_release))) struct saver s = {.fd = out_fd,
		.map = &map,
		.table_offset = PAGES_HEADER_SIZE,
		.header = {.ram_bytes = map.bytes,
			.data_offset = round_up(PAGES_HEADER_SIZE + pages * PAGES_RUN_SIZE)}};
	buf_init(&s.table, (size_t)(TABLE_RUNS + 1) * PAGES_RUN_SIZE);
	if (!(s.pages = malloc((size_t)PAGES_CHUNK * RAM_PAGE)))
		return err_errno(e, ENOMEM, "writing the changed pages");
	page_scan_rewind(scan);
	if ((r = copy_pages(&s, scan, e)) < 0)
		return e->kind == ERR_NO_SPACE
			       ? space_error(out_fd, "the changed memory", pages * RAM_PAGE, e)
			       : r;
	*ret = (struct pages_info){.pages = s.header.data_pages + s.zero_pages,
		.zero_pages = s.zero_pages,
		.file_bytes = s.header.data_offset + s.header.data_pages * RAM_PAGE,
		.scan_us = scanned_us - start_us,
		.copy_us = clock_mono_us() - scanned_us};
	return 0;
}
