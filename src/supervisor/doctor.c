/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor.h"

#include "../base/fd.h"
#include "../base/install.h"
#include "../base/json.h"
#include "../store/home.h"
#include "../vm/host.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void add(
	json_t *checks, const char *name, const char *status, const char *text, const char *hint)
{
	(void)json_array_append_new(
		checks, json_pack("{s:s, s:s, s:s, s:s}", "name", name, "status", status, "text",
				text, "hint", hint ? hint : ""));
}

static void check_engine(json_t *checks, struct vm_host *host)
{
	char assets[PATH_MAX], text[ERR_WHAT_MAX];
	struct err e;
	int dirfd = -1; /* without a state directory nothing is remembered */
	struct home home = {.dirfd = -1};

	if (home_open(false, &home, &e) == 0)
		dirfd = home_templates_dir(&home, &e);
	if (install_assets_dir(assets, sizeof(assets), &e) < 0 ||
		vm_host_probe(assets, dirfd, host, &e) < 0) {
		add(checks, "engine", "fail", e.what, e.hint);
	} else {
		(void)snprintf(text, sizeof(text), "QEMU %s, machine %s, CPU %s",
			host->qemu_version, host->machine, host->cpu);
		add(checks, "engine", "ok", text, NULL);
		(void)snprintf(text, sizeof(text), "%.300s (%.12s)", assets, host->assets_hash);
		add(checks, "guest assets", "ok", text, NULL);
	}
	(void)fd_close(dirfd);
	home_release(&home);
}

static void check_accelerator(json_t *checks)
{
	switch (vm_kvm_probe()) {
	case VM_KVM_USABLE:
		add(checks, "accelerator", "ok", "KVM usable", NULL);
		break;
	case VM_KVM_NOT_READABLE:
		add(checks, "accelerator", "warn",
			"/dev/kvm is present but not readable for this user: emulation is used",
			"add yourself to the group kvm: sudo usermod -aG kvm $USER, then log in "
			"again");
		break;
	case VM_KVM_NO_DEVICE:
	case VM_KVM_NO_HARDWARE:
		add(checks, "accelerator", "warn",
			"no virtualisation: emulation is used; everything works, programs run "
			"about 10 "
			"to 30 times slower",
			NULL);
		break;
	case VM_KVM_STATE_COUNT:
		break;
	}
}

static void check_landlock(json_t *checks)
{
	char text[64];
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	if (abi < 1) {
		add(checks, "landlock", "warn", "the kernel has no Landlock: QEMU is confined less",
			"a kernel of 5.13 or newer with the landlock module on");
		return;
	}
	(void)snprintf(text, sizeof(text), "Landlock version %ld", abi);
	add(checks, "landlock", "ok", text, NULL);
}

static void check_namespaces(json_t *checks)
{
	pid_t pid = fork();
	int status = 1;

	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0 ? 1 : 0);
	if (pid > 0)
		(void)waitpid(pid, &status, 0);
	if (status == 0)
		add(checks, "namespaces", "ok", "user and network namespaces", NULL);
	else
		add(checks, "namespaces", "warn",
			"unprivileged user namespaces are off: QEMU and the unpacker are confined "
			"less",
			"sysctl kernel.unprivileged_userns_clone=1");
}

static void check_ptrace(json_t *checks)
{
	cleanup_fd int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
	char scope = '0';

	if (fd >= 0 && fd_read_full(fd, &scope, 1) == 1 && scope >= '2' && geteuid() != 0)
		add(checks, "ptrace scope", "fail",
			"kernel.yama.ptrace_scope forbids reading a child's memory: no checkpoints",
			"sysctl kernel.yama.ptrace_scope=1");
	else
		add(checks, "ptrace scope", "ok", "a supervisor may read its QEMU's memory", NULL);
}

int doctor_print(void)
{
	struct vm_host host = {0};
	json_t *checks = json_array();

	check_engine(checks, &host);
	check_accelerator(checks);
	check_landlock(checks);
	check_namespaces(checks);
	check_ptrace(checks);
	cleanup_json *all =
		json_pack("{s:o, s:s}", "checks", checks, "qemu_version", host.qemu_version);
	if (!all || json_dumpf(all, stdout, JSON_COMPACT) < 0)
		return 1;
	return puts("") < 0;
}
