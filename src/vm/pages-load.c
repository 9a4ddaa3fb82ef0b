/* SPDX-License-Identifier: Apache-2.0 */
#include "pages.h"

#include "../base/cursor.h"
#include "../base/fd.h"
#include "pages-format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TABLE_RUNS 256u /* 4 KiB of the table at once */

static int corrupt(struct err *e, const char *why)
{
	return err_set(e, ERR_CORRUPT, 0, "the saved pages are damaged: %s", why);
}

static int read_at(int fd, void *ret, size_t len, uint64_t offset, struct err *e)
{
	ssize_t n = fd_pread_full(fd, ret, len, (off_t)offset);

	if (n < 0)
		return err_errno(e, (int)-n, "reading the saved pages");
	return (size_t)n == len ? 0 : corrupt(e, "the file is cut off");
}

static int read_header(int fd, uint64_t ram_bytes, struct pages_header *ret, struct err *e)
{
	unsigned char raw[PAGES_HEADER_SIZE];
	struct cursor c;
	struct pages_header h;
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return err_errno(e, errno, "reading the saved pages");
	if ((r = read_at(fd, raw, sizeof(raw), 0, e)) < 0)
		return r;
	cursor_init(&c, raw, sizeof(raw));
	if (memcmp(cursor_bytes(&c, 8), PAGES_MAGIC, 8) != 0)
		return corrupt(e, "this is not a file of saved pages");
	h.ram_bytes = cursor_u64(&c);
	h.runs = cursor_u64(&c);
	h.data_pages = cursor_u64(&c);
	h.data_offset = cursor_u64(&c);
	uint64_t ram_pages = ram_bytes / RAM_PAGE, size = (uint64_t)st.st_size;
	if (h.ram_bytes != ram_bytes)
		return corrupt(e, "they belong to a VM with another amount of memory");
	if (h.runs > ram_pages || h.data_pages > ram_pages || h.data_offset % RAM_PAGE != 0 ||
		h.data_offset > size ||
		h.data_offset < PAGES_HEADER_SIZE + h.runs * PAGES_RUN_SIZE ||
		size - h.data_offset != h.data_pages * RAM_PAGE)
		return corrupt(e, "the header does not fit the file");
	*ret = h;
	return 0;
}

struct loader {
	int fd;
	const struct pages_header *header;
	const struct ram_map *map; /* NULL: only check */
	uint64_t next_page;	   /* runs begin here or later */
	uint64_t data_seen;
	/* What is to be written next. */
	struct ram_run chunk[RAM_RUNS_AT_ONCE];
	enum pages_kind kinds[RAM_RUNS_AT_ONCE];
	size_t chunk_len;
	uint64_t chunk_pages, chunk_data; /* at most PAGES_CHUNK */
	unsigned char *pages;		  /* PAGES_CHUNK of contents */
};

/* Reads the chunk's data pages as they stand in the file, one after the other, moves them to their
 * places among the zero pages, from the last to the first, and writes all. */
static int flush_chunk(struct loader *l, struct err *e)
{
	uint64_t from = l->chunk_data, to = l->chunk_pages;
	int r = read_at(l->fd, l->pages, from * RAM_PAGE,
		l->header->data_offset + (l->data_seen - l->chunk_data) * RAM_PAGE, e);

	if (r < 0)
		return r;
	for (size_t i = l->chunk_len; i-- > 0;) {
		uint64_t n = l->chunk[i].pages;
		to -= n;
		if (l->kinds[i] == PAGES_ZERO) {
			memset(l->pages + to * RAM_PAGE, 0, n * RAM_PAGE);
			continue;
		}
		from -= n;
		memmove(l->pages + to * RAM_PAGE, l->pages + from * RAM_PAGE, n * RAM_PAGE);
	}
	r = ram_map_write(l->map, l->chunk, l->chunk_len, l->pages, e);
	l->chunk_len = 0;
	l->chunk_pages = l->chunk_data = 0;
	return r;
}

static int apply_run(struct loader *l, struct ram_run run, enum pages_kind kind, struct err *e)
{
	while (run.pages > 0) {
		uint64_t room = PAGES_CHUNK - l->chunk_pages;
		uint64_t n = run.pages < room ? run.pages : room;
		l->kinds[l->chunk_len] = kind;
		l->chunk[l->chunk_len++] = (struct ram_run){.first = run.first, .pages = n};
		l->chunk_pages += n;
		l->chunk_data += kind == PAGES_DATA ? n : 0;
		l->data_seen += kind == PAGES_DATA ? n : 0;
		run.first += n;
		run.pages -= n;
		if (l->chunk_pages < PAGES_CHUNK && l->chunk_len < RAM_RUNS_AT_ONCE)
			continue;
		int r = flush_chunk(l, e);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Checks a run, and writes it when there is where to. The file may change between the two passes:
 * so both check. */
static int take_run(struct loader *l, struct cursor *c, struct err *e)
{
	struct ram_run run = {.first = cursor_u64(c), .pages = cursor_u32(c)};
	uint32_t kind = cursor_u32(c);
	uint64_t ram_pages = l->header->ram_bytes / RAM_PAGE;

	if (kind > PAGES_ZERO)
		return corrupt(e, "a run is of an unknown kind");
	if (run.pages == 0 || run.first < l->next_page || run.first >= ram_pages ||
		run.pages > ram_pages - run.first)
		return corrupt(e, "a run is out of place");
	if (kind == PAGES_DATA && run.pages > l->header->data_pages - l->data_seen)
		return corrupt(e, "the runs name more pages than there are");
	l->next_page = run.first + run.pages;
	if (l->map)
		return apply_run(l, run, (enum pages_kind)kind, e);
	l->data_seen += kind == PAGES_DATA ? run.pages : 0;
	return 0;
}

static int walk(struct loader *l, struct err *e)
{
	unsigned char table[TABLE_RUNS * PAGES_RUN_SIZE];
	int r;

	for (uint64_t done = 0; done < l->header->runs;) {
		struct cursor c;
		uint64_t left = l->header->runs - done;
		size_t n = left < TABLE_RUNS ? left : TABLE_RUNS;
		if ((r = read_at(l->fd, table, n * PAGES_RUN_SIZE,
			     PAGES_HEADER_SIZE + done * PAGES_RUN_SIZE, e)) < 0)
			return r;
		cursor_init(&c, table, n * PAGES_RUN_SIZE);
		for (size_t i = 0; i < n; i++)
			if ((r = take_run(l, &c, e)) < 0)
				return r;
		done += n;
	}
	if (l->data_seen != l->header->data_pages)
		return corrupt(e, "the runs name fewer pages than there are");
	return 0;
}

int pages_check(int in_fd, uint64_t ram_bytes, struct err *e)
{
	struct pages_header header;
	int r = read_header(in_fd, ram_bytes, &header, e);

	if (r < 0)
		return r;
	struct loader l = {.fd = in_fd, .header = &header};
	return walk(&l, e);
}

static void loader_release(struct loader *l)
{
	free(l->pages);
}

int pages_load(int in_fd, pid_t pid, int ram_fd, struct err *e)
{
	struct ram_map map;
	struct pages_header header;
	int r;

	if ((r = ram_map_find(pid, ram_fd, &map, e)) < 0 ||
		(r = pages_check(in_fd, map.bytes, e)) < 0 ||
		(r = read_header(in_fd, map.bytes, &header, e)) < 0)
		return r;
	__attribute__((cleanup(loader_release))) struct loader l = {
		.fd = in_fd, .header = &header, .map = &map};
	if (!(l.pages = malloc((size_t)PAGES_CHUNK * RAM_PAGE)))
		return err_errno(e, ENOMEM, "loading the saved pages");
	if ((r = walk(&l, e)) < 0)
		return r;
	return flush_chunk(&l, e);
}
