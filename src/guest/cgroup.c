/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup.h"

#include "../base/fd.h"
#include "../base/file.h"
#include "../base/text.h"
#include "devices.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define ROOT "/sys/fs/cgroup"
#define CONTROLLERS "+cpu +memory +pids"
/* What the containers together leave to the agent and the kernel. */
#define MEMORY_RESERVE (64ull << 20)
#define THREADS_RESERVE 256u
#define THREADS_MAX 16384u
#define CPU_PERIOD_US 100000u
#define COPIES "copies"
#define COPIES_PIDS 256u

static int put(int dirfd, const char *name, const char *value)
{
	cleanup_fd int fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_write_all(fd, value, strlen(value));
}

static int put_number(int dirfd, const char *name, uint64_t value)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return put(dirfd, name, text);
}

/* Limits of all runs together, from what this VM has. */
static int limit_runs(int runs_fd, uint32_t *ret_pids)
{
	cleanup_buf struct buf text = {0};
	struct sysinfo si;
	uint64_t threads = THREADS_MAX;
	int r;

	buf_init(&text, 64);
	if (sysinfo(&si) < 0)
		return -errno;
	uint64_t total = (uint64_t)si.totalram * si.mem_unit;
	r = put_number(runs_fd, "memory.max",
		total > 4 * MEMORY_RESERVE ? total - MEMORY_RESERVE : total / 4 * 3);
	if (r < 0)
		return r;
	if (file_read(AT_FDCWD, "/proc/sys/kernel/threads-max", &text) == 0 && buf_cstr(&text)) {
		unsigned long kernel = strtoul((char *)text.data, NULL, 10);
		if (kernel > 2 * THREADS_RESERVE && kernel - THREADS_RESERVE < threads)
			threads = kernel - THREADS_RESERVE;
	}
	*ret_pids = threads / 2 < CGROUP_PIDS_DEFAULT ? (uint32_t)threads / 2 : CGROUP_PIDS_DEFAULT;
	return put_number(runs_fd, "pids.max", threads);
}

/* Their caches count too. */
static int make_copies(int runs_fd)
{
	cleanup_fd int fd = dir_open(runs_fd, COPIES, true, 0755);
	struct sysinfo si;
	int r = fd;

	if (sysinfo(&si) < 0)
		return -errno;
	if (r >= 0)
		r = put_number(fd, "memory.max", (uint64_t)si.totalram * si.mem_unit / 4);
	if (r >= 0)
		r = put_number(fd, "pids.max", COPIES_PIDS);
	return r < 0 ? r : fd_take(&fd);
}

int cgroup_boot(struct cgroups *c, struct err *e)
{
	cleanup_fd int root = open(ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (root < 0)
		return err_errno(e, errno, ROOT);
	cleanup_fd int agent = dir_open(root, "agent", true, 0755);
	cleanup_fd int runs = dir_open(root, "runs", true, 0755);
	if (agent < 0 || runs < 0)
		return err_errno(e, agent < 0 ? -agent : -runs, "make control groups");
	/* A group with processes in it cannot hand controllers to children: leave the root. */
	if ((r = put(agent, "cgroup.procs", "0")) < 0 ||
		(r = put(root, "cgroup.subtree_control", CONTROLLERS)) < 0 ||
		(r = put(runs, "cgroup.subtree_control", CONTROLLERS)) < 0 ||
		(r = put_number(agent, "cpu.weight", 1000)) < 0 ||
		(r = limit_runs(runs, &c->pids)) < 0)
		return err_errno(e, -r, "set up control groups");
	r = devices_restrict(runs, e);
	if (r < 0)
		return r;
	c->copies_fd = make_copies(runs);
	if (c->copies_fd < 0)
		return err_errno(e, -c->copies_fd, "control group of the copies");
	c->runs_fd = fd_take(&runs);
	return 0;
}

static int set_limits(const struct cgroups *c, int fd, const struct cgroup_limits *limits)
{
	uint64_t pids = limits->pids ? limits->pids : c->pids;
	int r = put_number(fd, "pids.max", pids + 1);

	if (r == 0 && limits->memory_bytes)
		r = put_number(fd, "memory.max", limits->memory_bytes);
	if (r == 0 && limits->cpu_milli) {
		char text[48];

		(void)snprintf(text, sizeof(text), "%llu %u",
			(unsigned long long)limits->cpu_milli * CPU_PERIOD_US / 1000,
			CPU_PERIOD_US);
		r = put(fd, "cpu.max", text);
	}
	return r;
}

int cgroup_create(
	struct cgroups *c, const char *id, const struct cgroup_limits *limits, struct err *e)
{
	if (mkdirat(c->runs_fd, id, 0755) < 0)
		return err_errno(e, errno, "control group");
	cleanup_fd int fd = openat(c->runs_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? -errno : set_limits(c, fd, limits);
	if (r < 0) {
		(void)unlinkat(c->runs_fd, id, AT_REMOVEDIR);
		return err_errno(e, -r, "limits of the control group");
	}
	return fd_take(&fd);
}

static void exec_name(unsigned number, char ret[static 16])
{
	(void)snprintf(ret, 16, "e%u", number);
}

int cgroup_create_exec(int container_fd, unsigned number, struct err *e)
{
	char name[16];

	exec_name(number, name);
	if (mkdirat(container_fd, name, 0755) < 0)
		return err_errno(e, errno, "control group");
	int fd = openat(container_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		int r = err_errno(e, errno, "control group");
		(void)unlinkat(container_fd, name, AT_REMOVEDIR);
		return r;
	}
	return fd;
}

int cgroup_remove_exec(int container_fd, unsigned number)
{
	char name[16];

	exec_name(number, name);
	return unlinkat(container_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

/* Groups of execs whose processes have ended; those in use stay. Whether some stay. */
static bool remove_children(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *de;
	bool left = false;

	if (!d) {
		(void)fd_close(copy);
		return true;
	}
	while ((de = readdir(d)))
		if (de->d_type == DT_DIR && de->d_name[0] == 'e' &&
			unlinkat(fd, de->d_name, AT_REMOVEDIR) < 0)
			left = true;
	(void)closedir(d);
	return left;
}

bool cgroup_sweep_execs(int container_fd)
{
	return remove_children(container_fd);
}

int cgroup_kill(int fd)
{
	return put(fd, "cgroup.kill", "1");
}

int cgroup_remove(struct cgroups *c, const char *id)
{
	if (unlinkat(c->runs_fd, id, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	cleanup_fd int fd = openat(c->runs_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		(void)remove_children(fd);
	return unlinkat(c->runs_fd, id, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/* A file with one number. */
static uint64_t get_number(int fd, const char *name)
{
	cleanup_buf struct buf text = {0};

	buf_init(&text, 64);
	if (file_read(fd, name, &text) < 0 || !buf_cstr(&text))
		return 0;
	return strtoull((char *)text.data, NULL, 10);
}

uint64_t cgroup_oom_kills(int fd)
{
	cleanup_buf struct buf text = {0};

	buf_init(&text, 4096);
	if (file_read(fd, "memory.events", &text) < 0 || !buf_cstr(&text))
		return 0;
	const char *at = strstr((char *)text.data, "\noom_kill ");
	return at ? strtoull(at + strlen("\noom_kill "), NULL, 10) : 0;
}

void cgroup_usage(int fd, struct cgroup_usage *ret)
{
	ret->processes = (uint32_t)get_number(fd, "pids.current");
	ret->memory_bytes = get_number(fd, "memory.current");
}

int cgroup_freeze(struct cgroups *c, bool freeze)
{
	return put(c->runs_fd, "cgroup.freeze", freeze ? "1" : "0");
}

int cgroup_events_open(struct cgroups *c, struct err *e)
{
	int fd = openat(c->runs_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? err_errno(e, errno, "cgroup.events") : fd;
}

bool cgroup_is_frozen(int events_fd)
{
	char text[256];
	ssize_t n = pread(events_fd, text, sizeof(text) - 1, 0);

	if (n < 0)
		return false;
	text[n] = '\0';
	return strstr(text, "frozen 1") != NULL;
}
