/* SPDX-License-Identifier: Apache-2.0 */
#include "ram-map.h"

#include "../base/fd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* One line of /proc/PID/maps (proc_pid_maps(5)). */
struct line {
	uint64_t start, end, offset, inode;
	unsigned major, minor;
	char perms[5];
};

static bool parse(const char *text, struct line *l)
{
	return sscanf(text, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &l->start,
		       &l->end, l->perms, &l->offset, &l->major, &l->minor, &l->inode) == 7;
}

/* Calls each() for every line until it returns other than 0; that is the result. */
static int each_line(const char *path, int (*each)(const struct line *l, void *ctx), void *ctx)
{
	FILE *f = fopen(path, "re");
	char text[4600];
	struct line l;
	int r = 0;

	if (!f)
		return -errno;
	while (r == 0 && fgets(text, sizeof(text), f))
		if (parse(text, &l))
			r = each(&l, ctx);
	(void)fclose(f);
	return r;
}

static int is_at(const struct line *l, void *ctx)
{
	struct line *want = ctx;

	if (want->start < l->start || want->start >= l->end)
		return 0;
	*want = *l;
	return 1;
}

/* How the kernel names this file in a maps file: some file systems (btrfs, overlayfs) show another
 * device there than in stat(2). So a page of it is mapped here and looked up. */
static int identify(int ram_fd, struct line *ret)
{
	void *page = mmap(NULL, RAM_PAGE, PROT_READ, MAP_PRIVATE, ram_fd, 0);
	struct line l;

	if (page == MAP_FAILED)
		return -errno;
	l.start = (uint64_t)(uintptr_t)page;
	int r = each_line("/proc/self/maps", is_at, &l);
	(void)munmap(page, RAM_PAGE);
	if (r == 0)
		return -ENOENT;
	if (r > 0)
		*ret = l;
	return r;
}

struct search {
	struct line file;
	struct ram_map *map;
};

static int collect(const struct line *l, void *ctx)
{
	struct search *s = ctx;
	struct ram_map *m = s->map;

	if (l->inode != s->file.inode || l->major != s->file.major || l->minor != s->file.minor)
		return 0;
	uint64_t at = m->len ? m->regions[m->len - 1].offset + m->regions[m->len - 1].bytes : 0;
	if (l->offset != at || strcmp(l->perms, "rw-p") != 0 || m->len == RAM_REGIONS_MAX)
		return -EINVAL;
	m->regions[m->len++] = (struct ram_region){
		.address = l->start, .bytes = l->end - l->start, .offset = l->offset};
	return 0;
}

int ram_map_denied(int errnum, struct err *e)
{
	int r = err_errno(e, errnum, "cannot reach the memory of the QEMU process");

	if (errnum == EPERM || errnum == EACCES)
		return err_hint(e, "kernel.yama.ptrace_scope must be 0 or 1 (sysctl)");
	return r;
}

int ram_map_find(pid_t pid, int ram_fd, struct ram_map *ret, struct err *e)
{
	struct ram_map m = {.pid = pid};
	struct search s = {.map = &m};
	char path[64];
	struct stat st;

	if (fstat(ram_fd, &st) < 0)
		return err_errno(e, errno, "the template's RAM");
	m.bytes = (uint64_t)st.st_size;
	int r = identify(ram_fd, &s.file);
	if (r < 0)
		return err_errno(e, -r, "cannot map the template's RAM");
	(void)snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	r = each_line(path, collect, &s);
	if (r < 0 && r != -EINVAL)
		return ram_map_denied(-r, e);
	uint64_t covered = m.len ? m.regions[m.len - 1].offset + m.regions[m.len - 1].bytes : 0;
	if (r < 0 || covered != m.bytes || m.bytes == 0)
		return err_set(
			e, ERR_INTERNAL, 0, "QEMU has not mapped the template's RAM as expected");
	*ret = m;
	return 0;
}

/* The piece of a run that lies in one region. False when the run is not in RAM. */
static bool piece(const struct ram_map *m, uint64_t offset, uint64_t bytes, struct iovec *ret)
{
	for (size_t i = 0; i < m->len; i++) {
		const struct ram_region *g = &m->regions[i];
		if (offset < g->offset || offset - g->offset >= g->bytes)
			continue;
		uint64_t left = g->bytes - (offset - g->offset);
		ret->iov_base = (void *)(uintptr_t)(g->address + (offset - g->offset));
		ret->iov_len = bytes < left ? bytes : left;
		return true;
	}
	return false;
}

static int move(const struct ram_map *m, const struct iovec *local, const struct iovec *remote,
	size_t n, bool write_it, struct err *e)
{
	ssize_t got = write_it ? process_vm_writev(m->pid, local, 1, remote, n, 0)
			       : process_vm_readv(m->pid, local, 1, remote, n, 0);

	if (got < 0)
		return ram_map_denied(errno, e);
	if ((size_t)got != local->iov_len)
		return err_set(e, ERR_IO, EFAULT, "the memory of the QEMU process went away");
	return 0;
}

static int transfer(const struct ram_map *m, const struct ram_run *runs, size_t len, void *data,
	bool write_it, struct err *e)
{
	struct iovec remote[RAM_RUNS_AT_ONCE + RAM_REGIONS_MAX], local = {.iov_base = data};
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		uint64_t at = runs[i].first * RAM_PAGE, left = runs[i].pages * RAM_PAGE;
		for (; left > 0; n++) {
			if (n == sizeof(remote) / sizeof(remote[0]) ||
				!piece(m, at, left, &remote[n]))
				return err_set(e, ERR_INTERNAL, 0, "a page is not in RAM");
			at += remote[n].iov_len;
			left -= remote[n].iov_len;
			local.iov_len += remote[n].iov_len;
		}
	}
	return move(m, &local, remote, n, write_it, e);
}

int ram_map_read(
	const struct ram_map *m, const struct ram_run *runs, size_t len, void *ret, struct err *e)
{
	return transfer(m, runs, len, ret, false, e);
}

int ram_map_write(const struct ram_map *m, const struct ram_run *runs, size_t len, const void *data,
	struct err *e)
{
	return transfer(m, runs, len, (void *)data, true, e);
}

/* QEMU, hw/i386/pc_q35.c, pc_q35_init(): RAM from LOW_SPLIT on begins at 4 GB when all of it does
 * not fit below LOW_MAX, where the devices begin. */
#define LOW_MAX 0xb0000000u
#define LOW_SPLIT 0x80000000u
#define HIGH_START (1ull << 32)
#define FIRST_MB (1u << 20)

int ram_offset(uint64_t ram_bytes, uint64_t physical, uint64_t len, uint64_t *ret)
{
	uint64_t low = ram_bytes < LOW_MAX ? ram_bytes : LOW_SPLIT;
	uint64_t at = physical, end = low;

	if (physical >= HIGH_START) {
		if (physical - HIGH_START > ram_bytes - low)
			return -ERANGE;
		at = low + (physical - HIGH_START);
		end = ram_bytes;
	}
	if (at < FIRST_MB || at > end || len > end - at)
		return -ERANGE;
	*ret = at;
	return 0;
}

int ram_map_write_at(
	const struct ram_map *m, uint64_t offset, const void *data, size_t len, struct err *e)
{
	struct iovec remote[RAM_REGIONS_MAX], local = {.iov_base = (void *)data, .iov_len = len};
	size_t n = 0;

	for (uint64_t left = len; left > 0; n++) {
		if (n == RAM_REGIONS_MAX || !piece(m, offset, left, &remote[n]))
			return err_set(e, ERR_INTERNAL, 0, "a page is not in RAM");
		offset += remote[n].iov_len;
		left -= remote[n].iov_len;
	}
	return move(m, &local, remote, n, true, e);
}
