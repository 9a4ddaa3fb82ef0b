/* SPDX-License-Identifier: Apache-2.0 */
#include "confine.h"

#include "../base/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define READING (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITING                                                                                  \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                         \
		LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |                   \
		LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |                     \
		LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_FS_REFER | \
		LANDLOCK_FS_TRUNCATE)

static const int reading[] = {
	/* the socket, inotify, the loop */
	SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(recvmsg), SCMP_SYS(poll), SCMP_SYS(ppoll),
	SCMP_SYS(inotify_add_watch), SCMP_SYS(inotify_rm_watch), SCMP_SYS(close),
	/* files */
	SCMP_SYS(openat), SCMP_SYS(openat2), SCMP_SYS(statx), SCMP_SYS(fstat), SCMP_SYS(newfstatat),
	SCMP_SYS(fstatfs), SCMP_SYS(pread64), SCMP_SYS(lseek), SCMP_SYS(getdents64),
	SCMP_SYS(readlinkat), SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(getxattr),
	SCMP_SYS(lgetxattr), SCMP_SYS(listxattr), SCMP_SYS(fsync), SCMP_SYS(fdatasync),
	/* memory; mmap and mprotect below */
	SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise),
	/* the process */
	SCMP_SYS(futex), SCMP_SYS(rseq), SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(exit),
	SCMP_SYS(exit_group), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
	SCMP_SYS(rt_sigaction), SCMP_SYS(sigaltstack), SCMP_SYS(sched_yield),
	SCMP_SYS(restart_syscall), SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday),
	SCMP_SYS(getrandom)};

static const int writing[] = {SCMP_SYS(pwrite64), SCMP_SYS(pwritev2), SCMP_SYS(ftruncate),
	SCMP_SYS(fallocate), SCMP_SYS(copy_file_range), SCMP_SYS(unlinkat), SCMP_SYS(renameat),
	SCMP_SYS(renameat2), SCMP_SYS(linkat), SCMP_SYS(symlinkat), SCMP_SYS(mkdirat),
	SCMP_SYS(fchmodat), SCMP_SYS(utimensat), SCMP_SYS(setxattr), SCMP_SYS(removexattr)};

static int allow_all(scmp_filter_ctx f, const int *calls, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, calls[i], 0);
	return r;
}

static int add_rules(scmp_filter_ctx f, bool read_only)
{
	static const mode_t made[] = {0, S_IFREG, S_IFIFO, S_IFSOCK};
	int r = allow_all(f, reading, sizeof(reading) / sizeof(reading[0]));

	if (r == 0 && !read_only)
		r = allow_all(f, writing, sizeof(writing) / sizeof(writing[0]));
	/* No device. */
	for (size_t i = 0; i < 4 && r == 0 && !read_only; i++)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mknodat), 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ, S_IFMT, made[i]));
	/* No new executable memory. */
	if (r == 0)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (r == 0)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (r == 0)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
			SCMP_A1(SCMP_CMP_EQ, F_DUPFD_CLOEXEC, 0));
	/* abort(3) */
	if (r == 0)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
			SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0));
	return r;
}

static int confine_syscalls(bool read_only, struct err *e)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int r;

	if (!f)
		return err_set(e, ERR_LIMIT, ENOMEM, "out of memory for the system call filter");
	r = add_rules(f, read_only);
	if (r == 0)
		r = seccomp_load(f);
	seccomp_release(f);
	return r < 0 ? err_errno(e, -r, "cannot enter the system call filter") : 0;
}

static int confine_capabilities(struct err *e)
{
	const uint32_t kept = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH | 1u << CAP_FOWNER;
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct now[2];

	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capget, &head, now) < 0)
		return err_errno(e, errno, "cannot read capabilities");
	now[0].effective &= kept;
	now[0].permitted &= kept;
	now[0].inheritable = 0;
	now[1] = (struct __user_cap_data_struct){0};
	if (syscall(SYS_capset, &head, now) < 0)
		return err_errno(e, errno, "cannot drop capabilities");
	return 0;
}

static int confine_paths(int root_fd, bool read_only, struct err *e)
{
	cleanup_landlock struct landlock l = LANDLOCK_NONE;
	char root[32];
	int r = landlock_start(LANDLOCK_NET_BIND_TCP | LANDLOCK_NET_CONNECT_TCP,
		LANDLOCK_SCOPE_SOCKETS | LANDLOCK_SCOPE_SIGNALS, &l, e);

	if (r <= 0)
		return r;
	(void)snprintf(root, sizeof(root), "/proc/self/fd/%d", root_fd);
	r = landlock_allow(&l, root, READING | (read_only ? 0 : WRITING), e);
	return r < 0 ? r : landlock_enter(&l, e);
}

int confine_fs(int root_fd, bool read_only, struct err *e)
{
	int r;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_errno(e, errno, "cannot confine itself");
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGXFSZ, SIG_IGN);
	if ((r = confine_paths(root_fd, read_only, e)) < 0 || (r = confine_capabilities(e)) < 0)
		return r;
	return confine_syscalls(read_only, e);
}
