/* SPDX-License-Identifier: Apache-2.0 */
#include "confine.h"

#include "../../base/landlock.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Stage 1: from here on there is nothing to reach but what was handed over. */
int confine_start(unsigned first_closed, struct err *e)
{
	if (close_range(first_closed, ~0u, 0) < 0)
		return err_errno(e, errno, "cannot close other descriptors");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(e, errno, "cannot set no_new_privs");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_errno(e, errno, "cannot become undumpable");
	(void)signal(SIGPIPE, SIG_IGN);
	return 0;
}

/* Stage 2: a second wall only, stage 6 forbids all that these would show. */
const char *confine_namespaces(void)
{
	const int others = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWPID;

	if (unshare(CLONE_NEWUSER | others) == 0)
		return NULL;
	/* Root where user namespaces are switched off still may have the others. */
	if (unshare(others) == 0)
		return "user";
	return "user, network, mount, IPC, host name and process";
}

/* A lower limit that is there already stays; the soft one is `gap` below the hard one. */
static int set_limit(int what, uint64_t value, uint64_t gap, const char *name, struct err *e)
{
	struct rlimit l;

	if (getrlimit((__rlimit_resource_t)what, &l) < 0)
		return err_errno(e, errno, "cannot read the limit of %s", name);
	if (l.rlim_max == RLIM_INFINITY || l.rlim_max > value + gap)
		l.rlim_max = value + gap;
	l.rlim_cur = l.rlim_max > gap ? l.rlim_max - gap : 0;
	if (setrlimit((__rlimit_resource_t)what, &l) < 0)
		return err_errno(e, errno, "cannot limit %s", name);
	return 0;
}

/* Stage 3. The hard limit of CPU time kills with SIGKILL, which says nothing: the soft one comes
 * first. SIGXFSZ is ignored: a write over the limit then fails with EFBIG and is reported. */
int confine_limits(const struct confine_limits *l, struct err *e)
{
	int r = set_limit(RLIMIT_CORE, 0, 0, "core files", e);

	(void)signal(SIGXFSZ, SIG_IGN);
	if (r == 0)
		r = set_limit(RLIMIT_CPU, l->cpu_seconds, 1, "CPU time", e);
	if (r == 0)
		r = set_limit(RLIMIT_FSIZE, l->file_bytes, 0, "file size", e);
#ifndef __SANITIZE_ADDRESS__ /* its shadow memory is larger */
	if (r == 0)
		r = set_limit(RLIMIT_DATA, l->memory_bytes, 0, "memory", e);
#endif
	return r;
}

/* Stage 4: a rule set that handles all and allows nothing. A monitor's death is a signal to its
 * worker, which is in other rules: the scope of signals would keep it back (PR_SET_PDEATHSIG). */
int confine_landlock(enum confine_role role, struct err *e)
{
	cleanup_landlock struct landlock l = LANDLOCK_NONE;
	uint64_t scoped = LANDLOCK_SCOPE_SOCKETS;
	int r;

	if (role == CONFINE_WORKER)
		scoped |= LANDLOCK_SCOPE_SIGNALS;
	r = landlock_start(LANDLOCK_NET_BIND_TCP | LANDLOCK_NET_CONNECT_TCP, scoped, &l, e);
	return r <= 0 ? r : landlock_enter(&l, e);
}

/* Stage 5. Dropping from the bounding set needs CAP_SETPCAP: without it there is nothing to drop
 * that an exec could bring back, which no_new_privs and stage 6 forbid anyway. */
int confine_capabilities(struct err *e)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2];

	for (int cap = 0; cap < 64 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
		;
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	memset(none, 0, sizeof(none));
	if (syscall(SYS_capset, &head, none) < 0)
		return err_errno(e, errno, "cannot drop capabilities");
	return 0;
}

/* ---- stage 6 ---- */

static const int allowed[] = {
	SCMP_SYS(read),
	SCMP_SYS(pread64),
	SCMP_SYS(write),
	SCMP_SYS(pwrite64),
	SCMP_SYS(lseek),
	SCMP_SYS(close),
	SCMP_SYS(ftruncate),
	SCMP_SYS(fallocate),
	SCMP_SYS(poll),
	/* memory; mmap and mprotect below */
	SCMP_SYS(brk),
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(madvise),
	/* threads of our own */
	SCMP_SYS(futex),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(rseq),
	SCMP_SYS(sched_yield),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(gettid),
	SCMP_SYS(getpid),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(getrandom),
};

/* What glibc, libarchive and sanitizers try and can do without. */
static const int refused[] = {
	SCMP_SYS(open),
	SCMP_SYS(openat),
	SCMP_SYS(access),
	SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2),
	SCMP_SYS(stat),
	SCMP_SYS(lstat),
	SCMP_SYS(fstat),
	SCMP_SYS(newfstatat),
	SCMP_SYS(readlink),
	SCMP_SYS(readlinkat),
	SCMP_SYS(getcwd),
	SCMP_SYS(ioctl),
	SCMP_SYS(fcntl),
	SCMP_SYS(prctl),
	SCMP_SYS(sysinfo),
	SCMP_SYS(prlimit64),
};

static int add_rules(scmp_filter_ctx f)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(allowed) / sizeof(allowed[0]); i++)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, allowed[i], 0);
	for (size_t i = 0; r == 0 && i < sizeof(refused) / sizeof(refused[0]); i++)
		r = seccomp_rule_add(f, SCMP_ACT_ERRNO(EACCES), refused[i], 0);
	/* No new executable memory. */
	if (r == 0)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (r == 0)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	/* abort(3) */
	if (r == 0)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
			SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0));
	return r;
}

static int add_role_rules(scmp_filter_ctx f, enum confine_role role, pid_t worker)
{
	int r;

	if (role == CONFINE_MONITOR) {
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(wait4), 0);
		return r < 0 ? r
			     : seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(kill), 2,
				       SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)worker, 0),
				       SCMP_A1(SCMP_CMP_EQ, SIGKILL, 0));
	}
	/* A thread, never a process. clone3's flags are out of a filter's reach: glibc falls back
	 * to clone. */
	r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
		SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
	return r < 0 ? r : seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

int confine_syscalls(enum confine_role role, pid_t worker, struct err *e)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int r;

	if (!f)
		return err_set(e, ERR_LIMIT, ENOMEM, "out of memory for the system call filter");
	r = add_rules(f);
	if (r == 0)
		r = add_role_rules(f, role, worker);
	if (r == 0)
		r = seccomp_load(f);
	seccomp_release(f);
	return r < 0 ? err_errno(e, -r, "cannot enter the system call filter") : 0;
}
