/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint's part in the pause: pages, device state, disk, in this order, so that the disk
 * moves to the new layer only when all else is written.
 *
 * QEMU never gets a descriptor of the checkpoint's files. Pages are read from outside; the device
 * state goes through an anonymous file in memory, of which a bounded part is copied.
 */
#include "capture.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "pages.h"
#include "vm-launch.h"
#include "vm-state.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEVICE_STATE_MAX (16u * 1024 * 1024)

/* Two descriptors of one open file: its position tells how much QEMU wrote. */
static int make_buffer(int *ret_own, int *ret_qemu, struct err *e)
{
	char path[40];
	cleanup_fd int fd = memfd_create("device-state", MFD_CLOEXEC);

	if (fd < 0)
		return err_errno(e, errno, "cannot hold the device state");
	/* QEMU takes from a set only a descriptor of exactly the access mode it opens with. */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	cleanup_fd int writer = open(path, O_WRONLY | O_CLOEXEC);
	if (writer < 0)
		return err_errno(e, errno, "cannot hold the device state");
	*ret_own = fd_take(&fd);
	*ret_qemu = fd_take(&writer);
	return 0;
}

static int copy_out(int from, int to, uint64_t bytes, struct err *e)
{
	char chunk[32768];

	for (uint64_t at = 0; at < bytes;) {
		size_t want = bytes - at < sizeof(chunk) ? bytes - at : sizeof(chunk);
		ssize_t n = fd_pread_full(from, chunk, want, (off_t)at);
		if (n < 0 || (size_t)n != want)
			return err_errno(e, n < 0 ? (int)-n : EIO, "reading the device state");
		int r = fd_pwrite_all(to, chunk, want, (off_t)at);
		if (r < 0)
			return err_errno(e, -r, "writing the device state");
		at += want;
	}
	if (ftruncate(to, (off_t)bytes) < 0)
		return err_errno(e, errno, "writing the device state");
	return 0;
}

int vm_save_devices(struct vm *vm, int fd, uint64_t *ret_bytes, struct err *e)
{
	cleanup_fd int own = -1, writer = -1;
	struct qmp *q = vm->qemu.qmp;
	int64_t set = vm->chain.next_set++;
	char path[40];
	struct err ignored;

	int r = make_buffer(&own, &writer, e);
	if (r < 0 || (r = qmp_call(q, "add-fd", json_pack("{s:I}", "fdset-id", (json_int_t)set),
			      writer, NULL, e)) < 0)
		return r;
	(void)snprintf(path, sizeof(path), "/dev/fdset/%lld", (long long)set);
	/* live: false keeps the disk open and in use; the VM goes on here. */
	r = qmp_call(q, "xen-save-devices-state",
		json_pack("{s:s, s:b}", "filename", path, "live", 0), QMP_FD_NONE, NULL, e);
	(void)!qmp_call(q, "remove-fd", json_pack("{s:I}", "fdset-id", (json_int_t)set),
		QMP_FD_NONE, NULL, &ignored);
	if (r < 0)
		return r;
	off_t bytes = lseek(writer, 0, SEEK_CUR);
	if (bytes <= 0 || bytes >= DEVICE_STATE_MAX)
		return err_set(e, ERR_PROTOCOL, 0, "QEMU wrote no usable device state");
	if ((r = copy_out(own, fd, (uint64_t)bytes, e)) < 0)
		return r;
	*ret_bytes = (uint64_t)bytes;
	return 0;
}

int capture(struct vm *vm, int pages_fd, int device_fd, const char *new_layer,
	struct vm_capture *ret, bool *ret_disk_moved, struct err *e)
{
	struct pages_info pages;
	struct vm_capture c;
	int r;

	if ((r = vm_end_merge(vm, e)) < 0 ||
		(r = pages_save(vm->qemu.pid, vm->ram_fd, pages_fd, &pages, e)) < 0)
		return r;
	c = (struct vm_capture){.pages = pages.pages,
		.zero_pages = pages.zero_pages,
		.pages_bytes = pages.file_bytes,
		.scan_us = pages.scan_us,
		.copy_us = pages.copy_us};
	int64_t at_us = clock_mono_us();
	if ((r = vm_save_devices(vm, device_fd, &c.device_bytes, e)) < 0)
		return r;
	c.device_us = clock_mono_us() - at_us;
	at_us = clock_mono_us();
	if ((r = chain_push(&vm->chain, vm->qemu.qmp, new_layer, e)) < 0)
		return r;
	*ret_disk_moved = true;
	c.disk_us = clock_mono_us() - at_us;
	*ret = c;
	return 0;
}
