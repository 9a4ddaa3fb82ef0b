/* SPDX-License-Identifier: Apache-2.0 */
#include "boot.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
	const char *name, *value;
	bool optional; /* not in every kernel */
} settings[] = {
	/* A container's root is the guest's root: what could change the kernel is closed. */
	{"kernel/sysrq", "0", false},
	{"kernel/kexec_load_disabled", "1", true},
	{"kernel/dmesg_restrict", "1", true},
	{"kernel/kptr_restrict", "2", true},
	{"kernel/unprivileged_bpf_disabled", "1", true},
	/* As docker's seccomp filter: no user namespaces, which would give back all that the
	 * capability set takes away. */
	{"user/max_user_namespaces", "0", false},
	{"fs/protected_hardlinks", "1", false},
	{"fs/protected_symlinks", "1", false},
	/* As docker sets for a container's network. */
	{"net/ipv4/ip_unprivileged_port_start", "0", false},
	{"net/ipv4/ping_group_range", "0 2147483647", false},
	{"kernel/modules_disabled", "1", false},
};

static int mount_on(const char *source, const char *target, const char *type, unsigned long flags,
	const char *data, struct err *e)
{
	if (mkdir(target, 0755) < 0 && errno != EEXIST)
		return err_errno(e, errno, "%s", target);
	if (mount(source, target, type, flags, data) < 0)
		return err_errno(e, errno, "mount %s", target);
	return 0;
}

int boot_console(struct err *e)
{
	int r = mount_on("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, NULL, e);

	if (r < 0)
		return r;
	cleanup_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	cleanup_fd int log = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
	if (null < 0 || log < 0)
		return err_errno(e, errno, "/dev/null, /dev/kmsg");
	if (dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
		dup2(log, STDERR_FILENO) < 0)
		return err_errno(e, errno, "standard descriptors");
	/* They may be 0 to 2 themselves. */
	if (null <= STDERR_FILENO)
		(void)fd_take(&null);
	if (log <= STDERR_FILENO)
		(void)fd_take(&log);
	return 0;
}

int boot_root(struct err *e)
{
	int r = mount_on("root", "/newroot", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m", e);

	if (r < 0)
		return r;
	if (umount2("/dev", MNT_DETACH) < 0 || chdir("/newroot") < 0 ||
		mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 || chdir("/") < 0)
		return err_errno(e, errno, "move the root");
	return 0;
}

int boot_filesystems(struct err *e)
{
	static const struct {
		const char *source, *target, *type;
		unsigned long flags;
		const char *data;
	} mounts[] = {
		{"proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL},
		{"sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL},
		{"devtmpfs", "/dev", "devtmpfs", MS_NOSUID, NULL},
		{"run", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=8m"},
		{"cgroup", "/sys/fs/cgroup", "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC,
			"nsdelegate"},
	};
	static const char *const folders[] = {PATH_IMAGES, PATH_DISK, PATH_MERGED};

	(void)umask(0);
	for (size_t i = 0; i < sizeof(mounts) / sizeof(*mounts); i++) {
		int r = mount_on(mounts[i].source, mounts[i].target, mounts[i].type,
			mounts[i].flags, mounts[i].data, e);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
		if (mkdir(folders[i], 0755) < 0)
			return err_errno(e, errno, "%s", folders[i]);
	return 0;
}

int boot_settings(struct err *e)
{
	/* The hard limits are what containers get; they cannot raise them again. */
	struct rlimit files = {.rlim_cur = 4096, .rlim_max = 1048576};
	struct rlimit processes = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
	cleanup_fd int dirfd = open("/proc/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_NPROC, &processes) < 0)
		return err_errno(e, errno, "limits");
	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
		const char *value = settings[i].value;
		cleanup_fd int fd = openat(dirfd, settings[i].name, O_WRONLY | O_CLOEXEC);
		int r = fd < 0 ? -errno : fd_write_all(fd, value, strlen(value));
		if (r < 0 && !settings[i].optional)
			return err_errno(e, -r, "kernel setting %s", settings[i].name);
	}
	/* Nothing may end the agent: memory, or a shortage of it, least of all. */
	cleanup_fd int oom = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	int r = oom < 0 ? -errno : fd_write_all(oom, "-1000", 5);
	return r < 0 ? err_errno(e, -r, "oom_score_adj") : 0;
}

int boot_loopback(struct err *e)
{
	struct ifreq req = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	cleanup_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &req) < 0)
		return err_errno(e, errno, "loopback interface");
	return 0;
}
