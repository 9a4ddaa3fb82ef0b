/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/host.h"
#include "vm/tsc.h"

#include "base/fd.h"
#include "base/file.h"

#include "tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct err e;
static char dir_path[] = "/tmp/kosa8-host.XXXXXX";
static int dirfd_;

static bool put(const char *name, const char *content, mode_t mode)
{
	return file_write_atomic(dirfd_, name, content, strlen(content), mode, false) == 0;
}

static void counter(void)
{
	uint64_t one = tsc_measure_khz(), two = tsc_measure_khz();
	uint64_t differ = one > two ? one - two : two - one;

#if defined(__x86_64__)
	OK(one > 100000, "the rate of the time stamp counter");
#endif
	OK(differ <= one / 500, "is the same again");
}

int main(void)
{
	struct vm_host h, again;
	char bin[128], assets[128];

	if (!mkdtemp(dir_path) || (dirfd_ = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return 1;
	(void)snprintf(bin, sizeof(bin), "%s/bin:/usr/bin:/bin", dir_path);
	(void)snprintf(assets, sizeof(assets), "%s/assets", dir_path);
	(void)setenv("KOSA8_ACCEL", "tcg", 1);

	OK(vm_host_probe(assets, dirfd_, &h, &e) < 0 && e.kind == ERR_UNAVAILABLE && e.hint[0],
		"without guest assets: what to do");
	OK(mkdirat(dirfd_, "assets", 0700) == 0 && put("assets/vmlinuz", "kernel", 0600) &&
			put("assets/initramfs", "initramfs", 0600),
		"guest assets");
	EQ_INT(vm_host_probe(assets, dirfd_, &h, &e), 0, "all is found");
	OK(h.accel == VM_ACCEL_TCG && h.qemu_version[0] >= '1' && h.qemu_version[0] <= '9',
		"with a version");
	EQ_INT(strlen(h.assets_hash), 64, "and a hash");

	/* A QEMU that tells how often it was asked. */
	OK(mkdirat(dirfd_, "bin", 0700) == 0 &&
			put("bin/qemu-system-x86_64",
				"#!/bin/sh\necho x >> ${0%/*}/asked\n"
				"echo 'QEMU emulator version 9.8.7 (Some 1:9.8)'\n",
				0700),
		"another QEMU, first in PATH");
	(void)setenv("PATH", bin, 1);
	EQ_INT(vm_host_probe(assets, dirfd_, &h, &e), 0, "is found");
	EQ_STR(h.qemu_version, "9.8.7", "and asked");
	EQ_INT(vm_host_probe(assets, dirfd_, &again, &e), 0, "a second time");
	EQ_STR(again.qemu_version, "9.8.7", "the same");
	struct stat st;
	OK(fstatat(dirfd_, "bin/asked", &st, 0) == 0 && st.st_size == 2, "without asking again");
	OK(put("bin/qemu-system-x86_64", "#!/bin/sh\necho nonsense\n", 0700), "it is replaced");
	OK(vm_host_probe(assets, dirfd_, &again, &e) < 0 && e.kind == ERR_UNAVAILABLE,
		"and asked again");
	OK(unlinkat(dirfd_, "bin/qemu-system-x86_64", 0) == 0, "and gone");
	OK(put("assets/initramfs", "another", 0600), "other assets");
	EQ_INT(vm_host_probe(assets, dirfd_, &again, &e), 0, "all is found");
	OK(strcmp(again.assets_hash, h.assets_hash) != 0, "with another hash");
	OK(put("host.json", "{\"qemu\": 5}", 0600) && vm_host_probe(assets, dirfd_, &h, &e) == 0,
		"a damaged cache is no obstacle");

	counter();
	(void)setenv("KOSA8_ACCEL", "hvf", 1);
	OK(vm_host_probe(assets, dirfd_, &h, &e) < 0 && e.kind == ERR_INVALID,
		"an odd accelerator");
	(void)setenv("KOSA8_ACCEL", "kvm", 1);
	enum vm_kvm_state kvm = vm_kvm_probe();
	int r = vm_host_probe(assets, dirfd_, &h, &e);
	OK(kvm == VM_KVM_USABLE ? r == 0 && h.accel == VM_ACCEL_KVM
				: r < 0 && e.kind == ERR_UNAVAILABLE && e.hint[0],
		"KVM on demand, or why not");
	printf("# KVM state %d: %s\n", kvm, r < 0 ? e.what : "usable");
	(void)unsetenv("KOSA8_ACCEL");
	OK(vm_host_probe(assets, dirfd_, &h, &e) == 0 &&
			(h.accel == VM_ACCEL_KVM) == (kvm == VM_KVM_USABLE),
		"by itself it takes KVM where it works");
	(void)close(dirfd_);
	OK(file_remove_tree(AT_FDCWD, dir_path) == 0, "cleaned up");
	return tap_done();
}
