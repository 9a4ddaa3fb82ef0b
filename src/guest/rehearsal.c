/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearsal.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/file.h"
#include "boot.h"
#include "container.h"
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STAGE "/run/rehearsal"
#define ID "rehearsal000"

static int copy_program(int dirfd)
{
	struct stat st;
	cleanup_fd int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	cleanup_fd int out = openat(dirfd, "image/program", O_WRONLY | O_CREAT | O_CLOEXEC, 0755);

	if (in < 0 || out < 0 || fstat(in, &st) < 0)
		return -errno;
	for (off_t left = st.st_size; left > 0;) {
		ssize_t n = sendfile(out, in, NULL, (size_t)left);
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		left -= n;
	}
	return 0;
}

static int make_stage(struct err *e)
{
	if (mkdir(STAGE, 0700) < 0 || mount("stage", STAGE, "tmpfs", 0, "size=16m") < 0)
		return err_errno(e, errno, STAGE);
	cleanup_fd int dirfd = open(STAGE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0 || mkdirat(dirfd, "image", 0755) < 0 ||
		mkdir(PATH_DISK "/workspace", 0755) < 0)
		return err_errno(e, errno, STAGE);
	int r = copy_program(dirfd);
	if (r == 0)
		r = keeper_make_folder(dirfd, "run");
	return r < 0 ? err_errno(e, -r, STAGE) : 0;
}

/* Until the report of the end, or the deadline. */
static int read_reports(int fd, struct err *e)
{
	int64_t deadline = clock_mono_ms() + REHEARSAL_MS;
	struct container_report m;
	struct container_started fds;

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		if (poll(&p, 1, clock_left_ms(deadline)) <= 0)
			return err_set(e, ERR_TIMEOUT, ETIMEDOUT, "no report from the container");
		int n = container_report_receive(fd, &m, &fds);
		(void)fd_close(fds.program);
		(void)fd_close(fds.terminal);
		if (n <= 0)
			return err_set(e, ERR_IO, EIO, "the container was lost");
		if (m.event == CONTAINER_FAILED)
			return err_set(e, ERR_IO, EIO, "%.200s", m.reply.text);
		if (m.event != CONTAINER_ENDED)
			continue;
		if (!WIFEXITED(m.value) || WEXITSTATUS(m.value) != REHEARSAL_EXIT)
			return err_set(e, ERR_IO, EIO, "the program ended with status %#x",
				(unsigned)m.value);
		return 0;
	}
}

static int run_container(int cgroup_fd, struct err *e)
{
	char *argv[] = {(char[]){"/program"}, NULL}, *env[] = {(char[]){"HOME=/"}, NULL};
	int report[2], r;
	cleanup_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return err_errno(e, errno, "/dev/null");
	if ((r = container_report_pair(report, e)) < 0)
		return r;
	struct container c = {.program = {.user = "", .cwd = "/", .argv = argv, .env = env},
		.image_dir = STAGE "/image",
		.disk_dir = STAGE "/run",
		.hostname = "rehearsal",
		.machine_id = "",
		.cgroup_fd = cgroup_fd,
		.stdio = {null, null, null},
		.report_fd = report[1]};
	pid_t pid = container_start(&c, e);
	(void)fd_close(report[1]);
	r = pid < 0 ? pid : read_reports(report[0], e);
	(void)fd_close(report[0]);
	if (r < 0)
		return r;
	return waitpid(pid, NULL, 0) < 0 ? err_errno(e, errno, "wait for the container") : 0;
}

int rehearse(struct cgroups *cgroups, struct err *e)
{
	struct cgroup_limits limits = {.memory_bytes = 64u << 20, .pids = 16};
	int r = make_stage(e);

	if (r == 0) {
		cleanup_fd int cgroup_fd = cgroup_create(cgroups, ID, &limits, e);
		r = cgroup_fd < 0 ? cgroup_fd : run_container(cgroup_fd, e);
	}
	if (r < 0)
		return err_wrap(e, "rehearsal");
	if ((r = cgroup_remove(cgroups, ID)) < 0)
		return err_errno(e, -r, "rehearsal: control group");
	if (umount2(STAGE, 0) < 0 || rmdir(STAGE) < 0 || rmdir(PATH_DISK "/workspace") < 0)
		return err_errno(e, errno, "rehearsal: %s", STAGE);
	return 0;
}
