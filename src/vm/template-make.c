/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a template: an empty disk, a RAM file that QEMU maps shared, and one boot. The guest's
 * part: the agent says HELLO, is told to stand still (QUIESCE 1, before epoch 1: it holds nothing
 * back), and answers QUIESCED. Then the machine is stopped and saved. What the boot wrote to its
 * disk layer is thrown away: nothing is mounted yet.
 */
#include "template-make.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/space.h"
#include "../base/frame.h"
#include "../base/text.h"
#include "../proto/agent.h"
#include "layer.h"
#include "template-meta.h"
#include "tool.h"
#include "vm-launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define BOOT_TIMEOUT_MS 60000
/* What is written for one: about 160 MB, more with more memory (its page tables). */
#define TEMPLATE_BYTES (256u * 1024 * 1024)
#define BOOT_LAYER "boot"
#define BOOT_LOG "qemu.log"
#define QUIESCE_NUMBER 1
#define MUX_MAX (2u * FRAME_PAYLOAD_MAX)

/* A file system that is the same whenever it is made: fixed features, UUID, hash seed and time. Its
 * tables and journal are holes of the sparse file and count as initialised, so that the guest does
 * not write them. */
static int make_disk(const struct vm_host *host, int dirfd, uint32_t disk_gb, struct err *e)
{
	char *const argv[] = {(char *)host->mke2fs, "-q", "-F", "-t", "ext4", "-b", "4096", "-I",
		"256", "-i", "16384", "-m", "0", "-O",
		"none,has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,"
		"extra_isize,ext_attr,dir_index,filetype,sparse_super,large_file",
		"-J", "size=32", "-U", "6b6f7361-3800-4000-8000-000000000001", "-E",
		"lazy_itable_init=0,lazy_journal_init=1,root_owner=0:0,"
		"hash_seed=6b6f7361-3800-4000-8000-000000000002",
		TOOL_FILE, NULL};
	char *const envp[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C",
		"E2FSPROGS_FAKE_TIME=1700000000", "MKE2FS_CONFIG=/dev/null", NULL};
	cleanup_fd int fd = openat(dirfd, "disk.raw", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, (off_t)disk_gb << 30) < 0)
		return err_errno(e, errno, "cannot make a disk of %u GB", disk_gb);
	int r = tool_run(argv, envp, fd, "cannot make the template's disk", e);
	if (r == 0 && fsync(fd) < 0)
		return err_errno(e, errno, "writing the template's disk");
	return r;
}

static int make_ram(int dirfd, uint32_t memory_mb, struct err *e)
{
	cleanup_fd int fd = openat(dirfd, "ram", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, (off_t)memory_mb << 20) < 0)
		return err_errno(e, errno, "cannot make a RAM file of %u MB", memory_mb);
	return 0;
}

/* The boot failed: what the guest said last is the best explanation there is. */
static int boot_failed(struct vm *vm, const char *why, struct err *e)
{
	char line[200];

	vm_console_line(vm, line, sizeof(line));
	return err_set(e, ERR_UNAVAILABLE, 0, "the guest did not come up: %s%s%s", why,
		line[0] ? "; its console says: " : "", line);
}

/* Waits until the agent sent something or the VM has ended. */
static int wait_mux(struct vm *vm, int64_t deadline_ms, struct err *e)
{
	for (;;) {
		struct pollfd p[] = {{.fd = vm_mux_fd(vm), .events = POLLIN},
			{.fd = vm_qmp_fd(vm), .events = POLLIN},
			{.fd = vm_pidfd(vm), .events = POLLIN}};
		int n = poll(p, sizeof(p) / sizeof(p[0]), clock_left_ms(deadline_ms));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(e, errno, "waiting for the guest");
		if (n == 0)
			return boot_failed(vm, "it did not report within 60 s", e);
		enum vm_event event;
		while ((event = vm_events(vm)) != VM_EVENT_NONE) {
			if (event == VM_EVENT_GONE)
				return vm_explain(vm,
					err_set(e, ERR_UNAVAILABLE, 0,
						"QEMU ended while the guest booted"),
					e);
			if (event == VM_EVENT_SHUTDOWN || event == VM_EVENT_PANIC)
				return boot_failed(vm, "it stopped by itself", e);
		}
		if (p[0].revents)
			return 0;
	}
}

/* The next frame; others than `type` are a mistake before the agent's first epoch. */
static int expect(struct vm *vm, struct buf *in, uint16_t type, struct frame *ret,
	int64_t deadline_ms, struct err *e)
{
	for (;;) {
		unsigned char chunk[4096];
		int size = frame_parse(in->data, in->len, ret);
		if (size < 0 || (size > 0 && (ret->type != type || ret->epoch != 0)))
			return boot_failed(vm, "its agent speaks another protocol", e);
		if (size > 0)
			return size;
		int r = wait_mux(vm, deadline_ms, e);
		if (r < 0)
			return r;
		ssize_t n = read(vm_mux_fd(vm), chunk, sizeof(chunk));
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return boot_failed(vm, "QEMU closed the agent's port", e);
		buf_put(in, chunk, (size_t)n);
		if (buf_failed(in))
			return boot_failed(vm, "its agent speaks another protocol", e);
	}
}

static int say_quiesce(struct vm *vm, struct err *e)
{
	cleanup_buf struct buf number = {0}, frame = {0};

	buf_init(&number, 4);
	buf_init(&frame, 64);
	buf_put_u32(&number, QUIESCE_NUMBER);
	frame_put(&frame, AGENT_QUIESCE, 0, 0, number.data, number.len);
	if (buf_failed(&number) || buf_failed(&frame))
		return err_errno(e, ENOMEM, "talking to the agent");
	/* The socket is empty so far: it takes these few bytes at once. */
	ssize_t n = write(vm_mux_fd(vm), frame.data, frame.len);
	return n == (ssize_t)frame.len ? 0 : boot_failed(vm, "the agent's port is closed", e);
}

static int wait_agent(struct vm *vm, struct err *e)
{
	int64_t deadline_ms = clock_mono_ms() + BOOT_TIMEOUT_MS;
	cleanup_buf struct buf in = {0};
	struct agent_hello hello;
	struct cursor c;
	struct frame f;

	buf_init(&in, MUX_MAX);
	int r = expect(vm, &in, AGENT_HELLO, &f, deadline_ms, e);
	if (r < 0)
		return r;
	cursor_init(&c, f.payload, f.len);
	if (agent_hello_decode(&c, &hello) < 0)
		return boot_failed(vm, "its agent speaks another protocol", e);
	if (hello.version != AGENT_PROTOCOL_VERSION)
		return err_set(e, ERR_INCOMPATIBLE, 0,
			"the guest's agent speaks version %u of the protocol, this kosa8 %u",
			hello.version, AGENT_PROTOCOL_VERSION);
	buf_consume(&in, (size_t)r);
	if ((r = say_quiesce(vm, e)) < 0)
		return r;
	r = expect(vm, &in, AGENT_QUIESCED, &f, deadline_ms, e);
	return r < 0 ? r : 0;
}

static int save(struct vm *vm, int dirfd, struct err *e)
{
	uint64_t bytes;
	cleanup_fd int fd = openat(dirfd, "device", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r;

	if (fd < 0)
		return err_errno(e, errno, "cannot make the template's device state");
	if ((r = vm_pause(vm, e)) < 0 || (r = vm_save_devices(vm, fd, &bytes, e)) < 0 ||
		(r = vm_quit(vm, e)) < 0)
		return r;
	cleanup_fd int ram = openat(dirfd, "ram", O_RDWR | O_CLOEXEC);
	if (ram < 0 || fsync(ram) < 0 || fsync(fd) < 0)
		return err_errno(e, errno, "writing the template");
	return 0;
}

int template_make(const struct vm_host *host, const struct vm_config *config, const char *key,
	int dirfd, struct err *e)
{
	cleanup_vm struct vm *vm = NULL;
	int r;

	if ((r = space_check(dirfd, "a template VM", TEMPLATE_BYTES, e)) < 0 ||
		(r = make_disk(host, dirfd, config->disk_gb, e)) < 0 ||
		(r = make_ram(dirfd, config->memory_mb, e)) < 0 ||
		(r = layer_create(host, dirfd, BOOT_LAYER, (uint64_t)config->disk_gb << 30, e)) < 0)
		return r;
	cleanup_fd int log = openat(dirfd, BOOT_LOG, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (log < 0)
		return err_errno(e, errno, "cannot make a log file");
	struct vm_boot boot = {
		.host = host, .config = config, .dirfd = dirfd, .top = BOOT_LAYER, .log_fd = log};
	if ((r = vm_boot(&boot, &vm, e)) < 0 || (r = vm_run(vm, e)) < 0 ||
		(r = wait_agent(vm, e)) < 0 || (r = save(vm, dirfd, e)) < 0 ||
		(r = layer_remove(dirfd, BOOT_LAYER, e)) < 0)
		return r;
	(void)unlinkat(dirfd, BOOT_LOG, 0);
	return template_meta_write(dirfd, key, host, config, e);
}
