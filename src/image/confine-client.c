/* SPDX-License-Identifier: Apache-2.0 */
#include "confine-client.h"

#include "../base/install.h"
#include "../base/landlock.h"
#include "../base/log.h"

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define EXECUTE (READ | LANDLOCK_ACCESS_FS_EXECUTE)
#define WRITE                                                                                   \
	(READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE |                \
		LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |                   \
		LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_FS_REFER | \
		LANDLOCK_FS_TRUNCATE)

/* ---- should: files ---- */

static const struct {
	const char *path;
	uint64_t rights;
	bool pull; /* for a pull only */
} system_paths[] = {
	{"/usr", EXECUTE, false},
	{"/lib", EXECUTE, false},
	{"/lib64", EXECUTE, false},
	{"/bin", EXECUTE, false},
	{"/nix/store", EXECUTE, false},
	{"/gnu/store", EXECUTE, false},
	{"/etc/ld.so.cache", READ, false},
	{"/etc/ssl/openssl.cnf", READ, false},
	{"/dev/null", READ | LANDLOCK_ACCESS_FS_WRITE_FILE, false},
	{"/dev/urandom", READ, false},
	{"/proc/self", READ, false},
	{"/proc/sys", READ, false},
	{"/etc", READ, true},
	/* Where these lead to, whatever keeps them up to date. */
	{"/etc/resolv.conf", READ, true},
	{"/etc/hosts", READ, true},
	{"/etc/nsswitch.conf", READ, true},
	{"/etc/gai.conf", READ, true},
	{"/etc/host.conf", READ, true},
	{"/etc/services", READ, true},
	{"/etc/localtime", READ, true},
	/* Which may make a new file there while we work. */
	{"/run/systemd/resolve", READ, true},
	{"/run/resolvconf", READ, true},
	{"/run/NetworkManager", READ, true},
	{"/var/lib/ca-certificates", READ, true},
};

/* OpenSSL's own. */
static const char *const path_variables[] = {"OPENSSL_CONF", "OPENSSL_MODULES"};

static int allow_named(const struct landlock *l, const char *const *readable, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(path_variables) / sizeof(path_variables[0]); i++) {
		const char *path = getenv(path_variables[i]);
		if (path && *path)
			r = landlock_allow(l, path, READ, e);
	}
	for (; r == 0 && readable && *readable; readable++)
		if (strcmp(*readable, "-") != 0)
			r = landlock_allow(l, *readable, READ, e);
	return r;
}

/* A program that is not there is reported by who wants to start it. */
static int allow_unpack(const struct landlock *l, struct err *e)
{
	char path[PATH_MAX];
	struct err ignored;

	if (install_program("kosa8-unpack", path, sizeof(path), &ignored) < 0)
		return 0;
	return landlock_allow(l, path, EXECUTE, e);
}

/* Signals: kosa8-unpack gets one when this process ends, which is allowed, as it is below us. */
static int confine_files(
	enum confine_image what, const char *images_dir, const char *const *readable, struct err *e)
{
	cleanup_landlock struct landlock l = LANDLOCK_NONE;
	uint64_t net = LANDLOCK_NET_BIND_TCP;
	int r;

	if (what == CONFINE_ARCHIVE)
		net |= LANDLOCK_NET_CONNECT_TCP;
	r = landlock_start(net, LANDLOCK_SCOPE_SOCKETS | LANDLOCK_SCOPE_SIGNALS, &l, e);
	if (r == 0)
		log_info("this kernel has no Landlock");
	if (r <= 0)
		return r;
	r = 0;
	for (size_t i = 0; r == 0 && i < sizeof(system_paths) / sizeof(system_paths[0]); i++)
		if (!system_paths[i].pull || what == CONFINE_PULL)
			r = landlock_allow(&l, system_paths[i].path, system_paths[i].rights, e);
	if (r == 0)
		r = allow_unpack(&l, e);
	if (r == 0)
		r = allow_named(&l, readable, e);
	if (r == 0 && images_dir)
		r = landlock_allow(&l, images_dir, WRITE, e);
	return r < 0 ? r : landlock_enter(&l, e);
}

/* ---- must ---- */

/* Root reads archives and certificates that are other users'. Nobody else has any to keep. */
static int confine_privileges(struct err *e)
{
	const uint32_t kept = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2];
	const struct rlimit none = {0, 0};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(e, errno, "cannot set no_new_privs");
	if (setrlimit(RLIMIT_CORE, &none) < 0)
		return err_errno(e, errno, "cannot limit core files");
	if (syscall(SYS_capget, &head, caps) < 0)
		return err_errno(e, errno, "cannot read the capabilities");
	for (int cap = 0; cap < 64; cap++)
		if (cap >= 32 || !(kept & 1u << cap))
			(void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	caps[0].permitted &= kept;
	caps[0].effective &= kept;
	memset(&caps[1], 0, sizeof(caps[1]));
	caps[0].inheritable = 0;
	if (syscall(SYS_capset, &head, caps) < 0)
		return err_errno(e, errno, "cannot drop capabilities");
	return 0;
}

static const int refused[] = {
	/* other processes */
	SCMP_SYS(ptrace),
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(pidfd_getfd),
	SCMP_SYS(kcmp),
	/* what reaches around these rules, or far into the kernel */
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(bpf),
	SCMP_SYS(perf_event_open),
	SCMP_SYS(userfaultfd),
	SCMP_SYS(open_by_handle_at),
	SCMP_SYS(mount),
	SCMP_SYS(move_mount),
	SCMP_SYS(open_tree),
	SCMP_SYS(fsopen),
	SCMP_SYS(pivot_root),
	SCMP_SYS(umount2),
	SCMP_SYS(setns),
	/* the user's keys */
	SCMP_SYS(keyctl),
	SCMP_SYS(add_key),
	SCMP_SYS(request_key),
};

/* Also for a socket that came as a standard stream. */
static const int refused_network[] = {
	SCMP_SYS(socket),
	SCMP_SYS(socketpair),
	SCMP_SYS(connect),
	SCMP_SYS(bind),
	SCMP_SYS(listen),
	SCMP_SYS(accept),
	SCMP_SYS(accept4),
};

static int refuse(scmp_filter_ctx f, const int *calls, size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), calls[i], 0);
	return r;
}

/* Sockets of IPv4, IPv6 and netlink (with which glibc asks for our own addresses) are what is left.
 * Through a Unix socket others would work for us: the user's D-Bus, docker, our own supervisors.
 * Landlock does not keep one from connecting to them. Name services that are asked that way are
 * passed over; glibc then asks the next. */
static int refuse_families(scmp_filter_ctx f)
{
	int r = 0;

	for (unsigned family = 0; r == 0 && family < AF_NETLINK; family++)
		if (family != AF_INET && family != AF_INET6)
			r = seccomp_rule_add(f, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
				SCMP_A0(SCMP_CMP_EQ, family, 0));
	/* Also what has more than the low 32 bits, which are all that the kernel looks at. */
	return r < 0 ? r
		     : seccomp_rule_add(f, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
			       SCMP_A0(SCMP_CMP_GT, AF_NETLINK, 0));
}

static int confine_calls(enum confine_image what, struct err *e)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	int r;

	if (!f)
		return err_set(e, ERR_LIMIT, ENOMEM, "out of memory for the system call filter");
	r = refuse(f, refused, sizeof(refused) / sizeof(refused[0]));
	if (r == 0 && what == CONFINE_ARCHIVE)
		r = refuse(
			f, refused_network, sizeof(refused_network) / sizeof(refused_network[0]));
	if (r == 0 && what == CONFINE_PULL)
		r = refuse_families(f);
	if (r == 0)
		r = seccomp_load(f);
	seccomp_release(f);
	return r < 0 ? err_errno(e, -r, "cannot enter the system call filter") : 0;
}

int confine_image_worker(
	enum confine_image what, const char *images_dir, const char *const *readable, struct err *e)
{
	int r = confine_privileges(e);

	if (r == 0)
		r = confine_files(what, images_dir, readable, e);
	return r < 0 ? r : confine_calls(what, e);
}
