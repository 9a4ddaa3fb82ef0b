/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse-slots.h"

#include "../base/fd.h"
#include "../base/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096u
#define HUGE_PAGE (2u * 1024 * 1024)
#define POOL_SIZE (FS_POOL_MAX * FS_SLOT_SIZE)

static_assert(POOL_SIZE == 2 * HUGE_PAGE && HUGE_PAGE % FS_SLOT_SIZE == 0,
	"a slot lies in one of FUSE_POOL_HUGE_PAGES");

void fuse_slots_reserve(void)
{
	cleanup_fd int fd = open("/proc/sys/vm/nr_hugepages", O_WRONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno
		       : fd_write_all(fd, FUSE_POOL_HUGE_PAGES, strlen(FUSE_POOL_HUGE_PAGES));

	if (r < 0)
		log_warn("no huge pages for mounts: %s", strerror(-r));
}

/* kernel: Documentation/admin-guide/mm/pagemap.rst. 0: not known. */
static uint64_t physical_of(int pagemap, const void *at)
{
	uint64_t entry = 0;
	off_t place = (off_t)((uintptr_t)at / PAGE * sizeof(entry));

	if (pread(pagemap, &entry, sizeof(entry), place) != (ssize_t)sizeof(entry) ||
		!(entry & 1ull << 63))
		return 0;
	return (entry & ((1ull << 55) - 1)) * PAGE;
}

void fuse_slots_open(struct fuse_slots *s)
{
	cleanup_fd int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	void *at = mmap(NULL, POOL_SIZE, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE, -1, 0);

	*s = (struct fuse_slots){0};
	if (at == MAP_FAILED || pagemap < 0) {
		log_warn("no pool for mounts: %s", strerror(errno));
		return;
	}
	s->pool = at;
	while (s->len < FS_POOL_MAX) {
		s->physical[s->len] = physical_of(pagemap, s->pool + s->len * FS_SLOT_SIZE);
		if (s->physical[s->len] == 0)
			break;
		s->len++;
	}
}

int fuse_slots_take(struct fuse_slots *s, uint32_t mount, uint64_t unique)
{
	for (size_t i = 0; i < s->len; i++)
		if (s->owner[i].mount == 0) {
			s->owner[i] = (struct fuse_slot_owner){mount, unique};
			return (int)i;
		}
	return FUSE_NO_SLOT;
}

bool fuse_slots_holds(const struct fuse_slots *s, uint32_t mount)
{
	for (size_t i = 0; i < s->len; i++)
		if (s->owner[i].mount == mount)
			return true;
	return false;
}

void fuse_slots_answered(struct fuse_slots *s, uint32_t mount, uint64_t unique, size_t dirty)
{
	for (size_t i = 0; i < s->len; i++) {
		if (s->owner[i].mount != mount || s->owner[i].unique != unique)
			continue;
		s->owner[i] = (struct fuse_slot_owner){0};
		if (s->dirty[i] < dirty)
			s->dirty[i] = dirty;
	}
}

void fuse_slots_new_epoch(struct fuse_slots *s)
{
	for (size_t i = 0; i < s->len; i++) {
		if (s->owner[i].mount != 0)
			s->dirty[i] = FS_SLOT_SIZE;
		s->owner[i] = (struct fuse_slot_owner){0};
	}
}

unsigned char *fuse_slots_at(const struct fuse_slots *s, int slot)
{
	return s->pool + (size_t)slot * FS_SLOT_SIZE;
}

void fuse_slots_clean(struct fuse_slots *s)
{
	for (size_t i = 0; i < s->len; i++) {
		if (s->owner[i].mount != 0)
			continue;
		memset(fuse_slots_at(s, (int)i), 0, s->dirty[i]);
		s->dirty[i] = 0;
	}
}
