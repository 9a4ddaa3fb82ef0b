/* SPDX-License-Identifier: Apache-2.0 */
#include "qemu-args.h"

#include "../base/buf.h"
#include "../base/strv.h"
#include "../proto/agent.h"
#include "chain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* A vector with sticky failure: one check at the end. */
struct args {
	char **v;
	bool failed;
};

static void add(struct args *a, const char *option, const char *fmt, ...) format_printf(3, 4);
static void add(struct args *a, const char *option, const char *fmt, ...)
{
	cleanup_buf struct buf b = {0};
	va_list ap;
	char text[8192];

	buf_init(&b, sizeof(text));
	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (a->failed || n < 0 || (size_t)n >= sizeof(text) || strv_add(&a->v, option) < 0 ||
		strv_add(&a->v, text) < 0)
		a->failed = true;
}

static void flag(struct args *a, const char *option)
{
	if (a->failed || strv_add(&a->v, option) < 0)
		a->failed = true;
}

static void machine(struct args *a, const struct vm_host *host, const struct vm_config *c)
{
	add(a, "-name", "kosa8");
	add(a, "-machine",
		"%s,i8042=off,sata=off,smbus=off,vmport=off,smm=off,suppress-vmdesc=on,"
		"dump-guest-core=off,mem-merge=off,memory-backend=ram",
		host->machine);
	add(a, "-bios", "%s", host->qboot);
	if (host->accel == VM_ACCEL_KVM) {
		add(a, "-accel", "kvm");
		add(a, "-cpu", "host");
	} else {
		add(a, "-accel", "tcg,thread=multi,tb-size=128");
		/* 57-bit addresses cost the emulation a fifth level of page tables. It carries out
		 * "rep movsb" byte by byte, so kernel and C library should not take it for fast. */
		add(a, "-cpu", "max,la57=off,erms=off,fsrm=off");
	}
	add(a, "-m", "%uM", c->memory_mb);
	add(a, "-smp", "%u", c->cpus);
	flag(a, "-nodefaults");
	flag(a, "-no-user-config");
	flag(a, "-nographic");
	flag(a, "-no-reboot");
	add(a, "-sandbox",
		"on,obsolete=deny,elevateprivileges=deny,resourcecontrol=deny,spawn=deny");
	/* The machine type is compared by us (checkpoint, template key), not in the stream. */
	add(a, "-global", "migration.send-configuration=off");
}

/* A port's number is part of the saved state. */
static void port(struct args *a, int nr, const char *id, int fd, const char *name)
{
	add(a, "-chardev", "socket,id=%s,fd=%d", id, fd);
	add(a, "-device", "virtserialport,bus=serial.0,nr=%d,chardev=%s,name=%s", nr, id, name);
}

static void channels(struct args *a)
{
	add(a, "-chardev", "socket,id=qmp,fd=%d", QEMU_FD_QMP);
	add(a, "-mon", "chardev=qmp,mode=control");
	add(a, "-device", "virtio-serial-pci,id=serial,addr=0x2");
	port(a, 1, "mux", QEMU_FD_MUX, AGENT_PORT_MUX);
	port(a, 2, "resume", QEMU_FD_RESUME, AGENT_PORT_RESUME);
	port(a, 3, "net", QEMU_FD_NET, AGENT_PORT_NET);
	port(a, 4, "fs", QEMU_FD_FS, AGENT_PORT_FS);
}

static void disks(struct args *a, const char *top)
{
	cleanup_str char *node = chain_top_options(top, QEMU_TOP_SET);

	if (!node) {
		a->failed = true;
		return;
	}
	add(a, "-add-fd", "fd=%d,set=%d,opaque=rw", QEMU_FD_TOP_RW, QEMU_TOP_SET);
	add(a, "-add-fd", "fd=%d,set=%d,opaque=ro", QEMU_FD_TOP_RO, QEMU_TOP_SET);
	add(a, "-blockdev", "%s", node);
	add(a, "-device",
		"virtio-blk-pci,id=disk,addr=0x3,drive=" CHAIN_NODE "%s,werror=stop,rerror=report",
		top);
	add(a, "-device", "virtio-scsi-pci,id=scsi,addr=0x4");
	add(a, "-device", "virtio-rng-pci,addr=0x5");
}

/* An emulated guest that measures its own counter while the host is busy may get a wrong rate, and
 * with it clocks and timeouts that run too fast for as long as the template lives. */
static void emulated_clock(uint64_t tsc_khz, char *ret, size_t size)
{
	(void)snprintf(ret, size, " no_timer_check tsc=reliable");
	if (tsc_khz > 0)
		(void)snprintf(
			ret, size, " no_timer_check tsc=reliable tsc_early_khz=%" PRIu64, tsc_khz);
}

static void boot_or_restore(struct args *a, const struct vm_host *host, bool boot, uint64_t tsc_khz)
{
	char clock[80] = "";

	add(a, "-device", "isa-serial,chardev=" QEMU_CONSOLE);
	if (!boot) {
		add(a, "-chardev", "null,id=" QEMU_CONSOLE);
		add(a, "-incoming", "defer");
		flag(a, "-S");
		return;
	}
	add(a, "-chardev", "ringbuf,id=" QEMU_CONSOLE ",size=65536");
	/* A guest that fails to boot stays, paused, so that its console can be read. */
	add(a, "-action", "reboot=shutdown,shutdown=pause");
	add(a, "-kernel", "/proc/self/fd/%d", QEMU_FD_KERNEL);
	add(a, "-initrd", "/proc/self/fd/%d", QEMU_FD_INITRAMFS);
	if (host->accel == VM_ACCEL_TCG)
		emulated_clock(tsc_khz, clock, sizeof(clock));
	add(a, "-append",
		"quiet console=ttyS0 panic=-1 reboot=t mitigations=off audit=0"
		" random.trust_cpu=on cryptomgr.notests%s",
		clock);
	flag(a, "-S");
}

int qemu_args(const struct vm_host *host, const struct vm_config *config, bool boot,
	const char *top, uint64_t tsc_khz, char ***ret, struct err *e)
{
	cleanup_strv char **v = strv_new();
	struct args a = {.v = v, .failed = !v};

	flag(&a, host->qemu);
	machine(&a, host, config);
	add(&a, "-object", "memory-backend-file,id=ram,size=%uM,mem-path=/proc/self/fd/%d,share=%s",
		config->memory_mb, QEMU_FD_RAM, boot ? "on" : "off");
	channels(&a);
	disks(&a, top);
	boot_or_restore(&a, host, boot, tsc_khz);
	v = a.v;
	if (a.failed)
		return err_errno(e, ENOMEM, "preparing to start QEMU");
	*ret = strv_take(&v);
	return 0;
}
