/* SPDX-License-Identifier: Apache-2.0 */
#include "host.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

/* The CPU's flags, as a line of /proc/cpuinfo: "flags : ... vmx ..." */
static bool cpu_has_virtualisation(void)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[8192];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "flags", 5) != 0)
			continue;
		char *state, *word = strtok_r(line, " \t\n:", &state);
		for (; word && !found; word = strtok_r(NULL, " \t\n:", &state))
			found = strcmp(word, "vmx") == 0 || strcmp(word, "svm") == 0;
	}
	if (f)
		(void)fclose(f);
	return found;
}

enum vm_kvm_state vm_kvm_probe(void)
{
	cleanup_fd int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	if (kvm < 0)
		return errno == ENOENT			   ? VM_KVM_NO_DEVICE
		       : errno == EACCES || errno == EPERM ? VM_KVM_NOT_READABLE
							   : VM_KVM_NO_HARDWARE;
	if (!cpu_has_virtualisation() || ioctl(kvm, KVM_GET_API_VERSION, 0) != KVM_API_VERSION)
		return VM_KVM_NO_HARDWARE;
	cleanup_fd int vm = ioctl(kvm, KVM_CREATE_VM, 0);
	return vm < 0 ? VM_KVM_NO_HARDWARE : VM_KVM_USABLE;
}
