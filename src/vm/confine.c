/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Confinement of the VMM process, in stages, each before exec. "Must" stages fail the start, the
 * others are best effort: they depend on what the kernel and the distribution allow.
 *
 *   limits       must        no core dump: it would hold the guest's memory
 *                should      enough descriptors for a long layer chain
 *   privileges   must        no_new_privs; no capability, root's QEMU neither
 *   namespaces   should      own user, network and IPC namespace, without any id mapped: there is
 *                            no network to reach. (Not possible in a chroot, or where the
 *                            distribution keeps it from ordinary users.)
 *                must not    lose PR_SET_PDEATHSIG: changing credentials clears it, it is set anew
 *                must not    keep the supervisor from the process's memory: it owns the namespace
 *   system calls must        no new socket (all it needs are inherited), no io_uring (it could do
 *                            what this filter denies), no look into other processes, no signal to
 *                            them, no change of mounts or namespaces. QEMU adds its own filter
 *                            (-sandbox).
 *                must        RAM is opened read-only, see below
 *   files        should      Landlock: read and execute below /usr, the files listed, /dev/kvm; all
 *                            else, and every TCP port, is closed
 *
 * The template's RAM is shared by all sandboxes of that configuration, so a QEMU that was taken
 * over must not hold it open for writing. But QEMU before 8.2 knows no read-only file behind a
 * private writable mapping: it opens mem-path O_RDWR. That open is the only one of QEMU with
 * exactly these flags (all else has O_CLOEXEC or is O_RDONLY), so the filter answers it with
 * "success, descriptor 0" without running it, and descriptor 0 is the RAM file, open read-only.
 */
#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOFILE_WANTED 8192
#define X32_BIT 0x40000000

static int limits(void)
{
	struct rlimit none = {0, 0}, files;

	if (setrlimit(RLIMIT_CORE, &none) < 0)
		return -errno;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < NOFILE_WANTED) {
		files.rlim_cur = files.rlim_max < NOFILE_WANTED ? files.rlim_max : NOFILE_WANTED;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	return 0;
}

/* With no_new_privs exec does not give them back, not even to uid 0. */
static int drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

static int namespaces(pid_t parent)
{
	(void)unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC);
	int r = drop_capabilities();
	if (r < 0)
		return r;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return -errno;
	return getppid() == parent ? 0 : -ESRCH; /* it died before the prctl */
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, (action))
#define DENY(nr, errnum) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), RETURN(SECCOMP_RET_ERRNO | (errnum))

/* The low half of an argument: x86-64 is little-endian. */
#define ARG(n) args[n]

static int filter_system_calls(bool ram_is_fd0)
{
	struct sock_filter program[] = {
		LOAD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1),
		RETURN(SECCOMP_RET_ERRNO | ENOSYS),
		DENY(SYS_socket, EPERM),
		DENY(SYS_io_uring_setup, ENOSYS),
		DENY(SYS_openat2, ENOSYS),
		DENY(SYS_open, ENOSYS), /* the C library uses openat() */
		DENY(SYS_open_by_handle_at, EPERM),
		DENY(SYS_ptrace, EPERM),
		DENY(SYS_process_vm_readv, EPERM),
		DENY(SYS_process_vm_writev, EPERM),
		DENY(SYS_pidfd_getfd, EPERM),
		DENY(SYS_bpf, EPERM),
		DENY(SYS_perf_event_open, EPERM),
		DENY(SYS_userfaultfd, EPERM),
		DENY(SYS_keyctl, EPERM),
		DENY(SYS_add_key, EPERM),
		DENY(SYS_request_key, EPERM),
		DENY(SYS_unshare, EPERM),
		DENY(SYS_setns, EPERM),
		DENY(SYS_mount, EPERM),
		DENY(SYS_kill, EPERM),
		DENY(SYS_tkill, EPERM),
		DENY(SYS_pidfd_send_signal, EPERM),
		DENY(SYS_rt_sigqueueinfo, EPERM),
		DENY(SYS_rt_tgsigqueueinfo, EPERM),
		/* Signals to its own threads only. */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 4),
		LOAD(ARG(0)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)getpid(), 0, 1),
		RETURN(SECCOMP_RET_ALLOW),
		RETURN(SECCOMP_RET_ERRNO | EPERM),
		/* Without the RAM rule the program ends before it: see `len` below. */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
		RETURN(SECCOMP_RET_ALLOW),
		LOAD(ARG(2)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, O_RDWR, 0, 1),
		RETURN(SECCOMP_RET_ERRNO | 0),
		RETURN(SECCOMP_RET_ALLOW),
	};
	size_t len = sizeof(program) / sizeof(program[0]);

	if (!ram_is_fd0) {
		len -= 5;
		program[len - 1] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
	}
	struct sock_fprog prog = {.len = (unsigned short)len, .filter = program};
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0 ? -errno : 0;
}

/* include/uapi/linux/landlock.h, with what is younger than the headers this may be built with. */
struct ruleset_attr {
	uint64_t handled_access_fs;
	uint64_t handled_access_net; /* ABI 4 */
	uint64_t scoped;	     /* ABI 6 */
};
#define FS_REFER (1ULL << 13)	 /* ABI 2 */
#define FS_TRUNCATE (1ULL << 14) /* ABI 3 */
#define NET_BIND_CONNECT_TCP 3ULL
#define SCOPE_ABSTRACT_UNIX_AND_SIGNAL 3ULL
#define FS_READ \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_ALL_OF_ABI_1 ((1ULL << 13) - 1)

static int new_ruleset(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct ruleset_attr attr = {.handled_access_fs = FS_ALL_OF_ABI_1};
	size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;

	if (abi < 1)
		return -ENOSYS;
	if (abi >= 2)
		attr.handled_access_fs |= FS_REFER;
	if (abi >= 3)
		attr.handled_access_fs |= FS_TRUNCATE;
	if (abi >= 4)
		attr.handled_access_net = NET_BIND_CONNECT_TCP;
	if (abi >= 6)
		attr.scoped = SCOPE_ABSTRACT_UNIX_AND_SIGNAL;
	return (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
}

/* A rule that cannot be made only closes more. */
static void allow_fd(int ruleset, int fd, uint64_t access)
{
	struct landlock_path_beneath_attr rule = {.parent_fd = fd, .allowed_access = access};
	struct stat st;

	if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode))
		rule.allowed_access &= ~(uint64_t)LANDLOCK_ACCESS_FS_READ_DIR;
	(void)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

static void allow(int ruleset, const char *path, uint64_t access)
{
	int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return;
	allow_fd(ruleset, fd, access);
	(void)close(fd);
}

static void restrict_files(const struct confine *c)
{
	static const char *const readable[] = {
		"/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/urandom"};
	static const uint64_t rw = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;
	int ruleset = new_ruleset();

	if (ruleset < 0)
		return;
	for (size_t i = 0; i < sizeof(readable) / sizeof(readable[0]); i++)
		allow(ruleset, readable[i], FS_READ);
	if (c->prefix)
		allow(ruleset, c->prefix, FS_READ);
	if (c->kvm)
		allow(ruleset, "/dev/kvm", rw);
	for (size_t i = 0; i < c->files_len; i++)
		allow_fd(ruleset, c->files[i].fd,
			c->files[i].writable ? rw : LANDLOCK_ACCESS_FS_READ_FILE);
	(void)syscall(SYS_landlock_restrict_self, ruleset, 0);
	(void)close(ruleset);
}

int confine_child(void *ctx)
{
	const struct confine *c = ctx;
	int r = limits();

	if (r < 0)
		return r;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	if ((r = namespaces(c->parent)) < 0)
		return r;
	restrict_files(c); /* opens paths: before the filter */
	return filter_system_calls(c->ram_is_fd0);
}
