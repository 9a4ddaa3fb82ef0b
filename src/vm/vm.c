/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of one QEMU process.
 *
 *   WAITING   started, no state yet     load, attach
 *   PAUSED    whole, standing still     run, capture, attach, merge
 *   RUNNING                             pause, attach, merge
 *
 * Pausing a paused VM and running a running one do nothing. Each call on a VM in another state is
 * refused (ERR_WRONG_STATE). vm_events(), vm_wait() and vm_free() are always allowed. A VM whose
 * QMP connection broke refuses all further calls with the same error (qmp.h).
 */
#include "vm.h"

#include "../base/fd.h"
#include "../base/strv.h"
#include "../base/text.h"
#include "capture.h"
#include "chain.h"
#include "pages.h"
#include "qemu.h"
#include "vm-launch.h"
#include "vm-state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_FREE_SET 2

void vm_free(struct vm *vm)
{
	if (!vm)
		return;
	qemu_release(&vm->qemu);
	chain_release(&vm->chain);
	(void)fd_close(vm->ram_fd);
	free(vm);
}

void vm_freep(struct vm **vm)
{
	vm_free(*vm);
	*vm = NULL;
}

int vm_require(const struct vm *vm, unsigned states, const char *what, struct err *e)
{
	static const char *const names[] = {[VM_WAITING] = "waiting for its state",
		[VM_PAUSED] = "paused",
		[VM_RUNNING] = "running"};

	if (states & 1u << vm->state)
		return 0;
	return err_set(e, ERR_WRONG_STATE, 0, "cannot %s: the VM is %s", what, names[vm->state]);
}

static int vm_new(struct vm **ret, struct err *e)
{
	struct vm *vm = calloc(1, sizeof(*vm));

	if (!vm)
		return err_errno(e, ENOMEM, "starting a VM");
	qemu_init(&vm->qemu);
	vm->chain.layers_dirfd = -1;
	vm->ram_fd = -1;
	*ret = vm;
	return 0;
}

static int open_file(int dirfd, const char *name, int flags, int *ret, struct err *e)
{
	int fd = openat(dirfd, name, flags | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return err_errno(e, errno, "cannot open the template's %s", name);
	*ret = fd;
	return 0;
}

/* Starts QEMU on the chain's top and opens the rest of the chain. qs lacks the descriptors of the
 * top layer and of RAM. */
static int launch(struct vm *vm, struct qemu_start *qs, int template_dirfd, struct err *e)
{
	cleanup_fd int rw = -1, ro = -1, base = -1;
	struct chain *c = &vm->chain;
	int r;

	qs->top = chain_top(c);
	if ((r = layer_open(c->layers_dirfd, qs->top, true, c->disk_bytes, &rw, e)) < 0 ||
		(r = layer_open(c->layers_dirfd, qs->top, false, c->disk_bytes, &ro, e)) < 0 ||
		(r = open_file(template_dirfd, "disk.raw", O_RDONLY, &base, e)) < 0)
		return r;
	qs->top_rw_fd = rw;
	qs->top_ro_fd = ro;
	qs->ram_fd = vm->ram_fd;
	if ((r = qemu_start(qs, &vm->qemu, e)) < 0)
		return r;
	if (chain_open(c, vm->qemu.qmp, base, e) < 0)
		return qemu_explain(&vm->qemu, e);
	return 0;
}

int vm_start(const struct vm_start *s, struct vm **ret, struct err *e)
{
	cleanup_vm struct vm *vm = NULL;
	const struct vm_config *config = &s->template->config;
	int r;

	if (s->layers_len == 0 || s->layers_len > VM_LAYERS_MAX)
		return err_set(e, ERR_LIMIT, 0, "a disk of %zu layers: 1 to %d can be opened",
			s->layers_len, VM_LAYERS_MAX);
	if ((r = vm_new(&vm, e)) < 0 ||
		(r = chain_init(&vm->chain, s->layers_dirfd, (uint64_t)config->disk_gb << 30,
			 s->layers, s->layers_len, QEMU_TOP_SET, FIRST_FREE_SET, e)) < 0 ||
		(r = open_file(s->template->dirfd, "ram", O_RDONLY, &vm->ram_fd, e)) < 0)
		return r;
	struct qemu_start qs = {.host = s->host,
		.config = config,
		.kernel_fd = -1,
		.initramfs_fd = -1,
		.log_fd = s->log_fd};
	if ((r = launch(vm, &qs, s->template->dirfd, e)) < 0)
		return r;
	vm->state = VM_WAITING;
	for (size_t i = 0; i < s->images_len; i++)
		if ((r = vm_attach(vm, &s->images[i], e)) < 0)
			return r;
	*ret = vm;
	vm = NULL;
	return 0;
}

int vm_boot(const struct vm_boot *b, struct vm **ret, struct err *e)
{
	cleanup_vm struct vm *vm = NULL;
	cleanup_fd int kernel = -1, initramfs = -1;
	int r;

	if ((r = vm_new(&vm, e)) < 0 ||
		(r = chain_init(&vm->chain, b->dirfd, (uint64_t)b->config->disk_gb << 30, &b->top,
			 1, QEMU_TOP_SET, FIRST_FREE_SET, e)) < 0 ||
		(r = open_file(b->dirfd, "ram", O_RDWR, &vm->ram_fd, e)) < 0)
		return r;
	kernel = open(b->host->kernel, O_RDONLY | O_CLOEXEC);
	initramfs = open(b->host->initramfs, O_RDONLY | O_CLOEXEC);
	if (kernel < 0 || initramfs < 0)
		return err_errno(e, errno, "cannot open the guest's kernel and initramfs");
	struct qemu_start qs = {.host = b->host,
		.config = b->config,
		.boot = true,
		.kernel_fd = kernel,
		.initramfs_fd = initramfs,
		.log_fd = b->log_fd};
	if ((r = launch(vm, &qs, b->dirfd, e)) < 0)
		return r;
	vm->state = VM_PAUSED;
	*ret = vm;
	vm = NULL;
	return 0;
}

static bool is_migration_end(const json_t *event, void *ctx)
{
	const char *status =
		json_string_value(json_object_get(json_object_get(event, "data"), "status"));

	(void)ctx;
	return strcmp(qmp_event_name(event), "MIGRATION") == 0 && status &&
	       (strcmp(status, "completed") == 0 || strcmp(status, "failed") == 0);
}

static int load_devices(struct vm *vm, int device_fd, struct err *e)
{
	struct qmp *q = vm->qemu.qmp;
	cleanup_json *end = NULL;
	int r;

	if ((r = qmp_call(q, "migrate-set-capabilities",
		     json_pack("{s:[{s:s, s:b}]}", "capabilities", "capability", "events", "state",
			     1),
		     QMP_FD_NONE, NULL, e)) < 0 ||
		(r = qmp_call(q, "getfd", json_pack("{s:s}", "fdname", "device"), device_fd, NULL,
			 e)) < 0 ||
		(r = qmp_call(q, "migrate-incoming", json_pack("{s:s}", "uri", "fd:device"),
			 QMP_FD_NONE, NULL, e)) < 0)
		return r;
	/* QEMU 7.2 exits when the state does not fit. */
	r = qmp_wait(q, is_migration_end, NULL, VM_QMP_TIMEOUT_MS, &end, e);
	if (r == 0) {
		const char *status =
			json_string_value(json_object_get(json_object_get(end, "data"), "status"));
		if (strcmp(status, "completed") == 0)
			return 0;
	} else if (e->kind == ERR_TIMEOUT) {
		return r;
	}
	return err_set(e, ERR_CORRUPT, 0, "QEMU cannot load the device state");
}

int vm_load(struct vm *vm, int pages_fd, int device_fd, struct err *e)
{
	char path[40];
	int r = vm_require(vm, 1u << VM_WAITING, "load a state", e);

	if (r < 0)
		return r;
	if (pages_fd >= 0 && (r = pages_load(pages_fd, vm->qemu.pid, vm->ram_fd, e)) < 0)
		return r;
	/* A file position of its own, at the start. */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", device_fd);
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(e, errno, "cannot open the device state");
	if (load_devices(vm, fd, e) < 0)
		return qemu_explain(&vm->qemu, e);
	vm->state = VM_PAUSED;
	return 0;
}

int vm_run(struct vm *vm, struct err *e)
{
	struct err ignored;
	int r = vm_require(vm, 1u << VM_PAUSED | 1u << VM_RUNNING, "run", e);

	if (r < 0 || (r = qmp_call(vm->qemu.qmp, "cont", NULL, QMP_FD_NONE, NULL, e)) < 0)
		return r;
	vm->state = VM_RUNNING;
	/* QEMU closes descriptors of a set only while the VM runs. */
	(void)!chain_close_old_top(&vm->chain, vm->qemu.qmp, &ignored);
	return 0;
}

int vm_pause(struct vm *vm, struct err *e)
{
	int r = vm_require(vm, 1u << VM_PAUSED | 1u << VM_RUNNING, "pause", e);

	if (r < 0 || vm->state == VM_PAUSED)
		return r;
	/* Both take time that the guest need not stand still for: a running job, and what the flush
	 * in "stop" would write. */
	if ((r = vm_end_merge(vm, e)) < 0)
		return r;
	chain_sync(&vm->chain);
	if ((r = qmp_call(vm->qemu.qmp, "stop", NULL, QMP_FD_NONE, NULL, e)) < 0)
		return r;
	vm->state = VM_PAUSED;
	return 0;
}

int vm_capture(struct vm *vm, int pages_fd, int device_fd, const char *new_layer,
	struct vm_capture *ret, bool *ret_disk_moved, struct err *e)
{
	*ret_disk_moved = false;
	int r = vm_require(vm, 1u << VM_PAUSED, "take a checkpoint", e);
	return r < 0 ? r : capture(vm, pages_fd, device_fd, new_layer, ret, ret_disk_moved, e);
}

int vm_check_ram(const struct vm *vm, uint64_t physical, size_t len)
{
	struct stat st;
	uint64_t offset;

	if (fstat(vm->ram_fd, &st) < 0)
		return -errno;
	return ram_offset((uint64_t)st.st_size, physical, len, &offset);
}

int vm_write_ram(struct vm *vm, uint64_t physical, const void *data, size_t len, struct err *e)
{
	uint64_t offset;
	int r = vm_require(vm, 1u << VM_RUNNING, "write into its RAM", e);

	if (r == 0 && vm->ram.len == 0)
		r = ram_map_find(vm->qemu.pid, vm->ram_fd, &vm->ram, e);
	if (r < 0)
		return r;
	if (ram_offset(vm->ram.bytes, physical, len, &offset) < 0)
		return err_set(e, ERR_PROTOCOL, ERANGE, "the guest named memory that it has not");
	return ram_map_write_at(&vm->ram, offset, data, len, e);
}

int vm_merge(struct vm *vm, const char *child, struct err *e)
{
	int r = vm_require(vm, 1u << VM_PAUSED | 1u << VM_RUNNING, "merge disk layers", e);

	return r < 0 ? r : chain_merge(&vm->chain, vm->qemu.qmp, child, e);
}

int vm_explain(struct vm *vm, int r, struct err *e)
{
	(void)qemu_explain(&vm->qemu, e);
	return r;
}

/* The kernel's panic, else the last line. */
static void telling_line(const char *text, char *ret, size_t size)
{
	const char *line = strstr(text, "Kernel panic"), *end = text + strlen(text);

	if (!line) {
		while (end > text && (end[-1] == '\n' || end[-1] == '\r'))
			end--;
		for (line = end; line > text && line[-1] != '\n'; line--)
			;
	}
	cleanup_str char *copy = strndup(line, strcspn(line, "\r\n"));
	if (copy)
		text_escape(copy, ret, size);
}

void vm_console_line(struct vm *vm, char *ret, size_t size)
{
	cleanup_json *text = NULL;
	struct err ignored;

	ret[0] = '\0';
	if (qmp_call(vm->qemu.qmp, "ringbuf-read",
		    json_pack("{s:s, s:i}", "device", QEMU_CONSOLE, "size", 65536), QMP_FD_NONE,
		    &text, &ignored) < 0 ||
		!json_is_string(text))
		return;
	telling_line(json_string_value(text), ret, size);
}

int vm_quit(struct vm *vm, struct err *e)
{
	int r = qmp_call(vm->qemu.qmp, "quit", NULL, QMP_FD_NONE, NULL, e);

	if (r < 0)
		return r;
	int code = qemu_wait(&vm->qemu);
	if (code != 0) {
		(void)err_set(e, ERR_IO, 0, "QEMU ended with code %d", code);
		return qemu_explain(&vm->qemu, e);
	}
	return 0;
}

int vm_mux_fd(const struct vm *vm)
{
	return vm->qemu.mux;
}

int vm_resume_fd(const struct vm *vm)
{
	return vm->qemu.resume;
}

int vm_net_fd(const struct vm *vm)
{
	return vm->qemu.net;
}

int vm_fs_fd(const struct vm *vm)
{
	return vm->qemu.fs;
}

int vm_pidfd(const struct vm *vm)
{
	return vm->qemu.pidfd;
}

pid_t vm_pid(const struct vm *vm)
{
	return vm->qemu.pid;
}

int vm_qmp_fd(const struct vm *vm)
{
	return qmp_fd(vm->qemu.qmp);
}

int vm_wait(struct vm *vm)
{
	return qemu_wait(&vm->qemu);
}
