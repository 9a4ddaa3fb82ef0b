/* SPDX-License-Identifier: Apache-2.0 */
/* What QEMU reports, in the few words of enum vm_event; and the two hot changes: images, merges. */
#include "vm-state.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static const char *data_str(const json_t *event, const char *key)
{
	const char *s = json_string_value(json_object_get(json_object_get(event, "data"), key));

	return s ? s : "";
}

static bool is_merge_end(const json_t *event, void *ctx)
{
	const char *name = qmp_event_name(event);

	(void)ctx;
	return (strcmp(name, "BLOCK_JOB_COMPLETED") == 0 ||
		       strcmp(name, "BLOCK_JOB_CANCELLED") == 0) &&
	       strcmp(data_str(event, "device"), CHAIN_MERGE_JOB) == 0;
}

static enum vm_event end_merge(struct vm *vm, const json_t *event)
{
	bool ok = strcmp(qmp_event_name(event), "BLOCK_JOB_COMPLETED") == 0 &&
		  !json_object_get(json_object_get(event, "data"), "error");
	struct err e;

	if (chain_merge_ended(&vm->chain, vm->qemu.qmp, ok, &e) < 0)
		ok = false;
	return ok ? VM_EVENT_MERGED : VM_EVENT_MERGE_FAILED;
}

int vm_end_merge(struct vm *vm, struct err *e)
{
	cleanup_json *event = NULL;
	struct err ignored;

	if (!vm->chain.merging[0])
		return 0;
	/* It may have ended by itself just now: then there is nothing to cancel. */
	(void)!qmp_call(vm->qemu.qmp, "block-job-cancel",
		json_pack("{s:s}", "device", CHAIN_MERGE_JOB), QMP_FD_NONE, NULL, &ignored);
	int r = qmp_wait(vm->qemu.qmp, is_merge_end, NULL, VM_QMP_TIMEOUT_MS, &event, e);
	if (r < 0)
		return r;
	vm->pending_event = end_merge(vm, event);
	return 0;
}

/* SHUTDOWN (QEMU qapi/run-state.json): a reboot counts as one, by -no-reboot. */
static enum vm_event shutdown_event(const json_t *event)
{
	const char *reason = data_str(event, "reason");

	if (strcmp(reason, "guest-shutdown") == 0)
		return VM_EVENT_SHUTDOWN;
	return strcmp(reason, "guest-reset") == 0 || strcmp(reason, "guest-panic") == 0
		       ? VM_EVENT_PANIC
		       : VM_EVENT_NONE;
}

static enum vm_event translate(struct vm *vm, const json_t *event)
{
	const char *name = qmp_event_name(event);

	if (strcmp(name, "SHUTDOWN") == 0)
		return shutdown_event(event);
	if (strcmp(name, "GUEST_PANICKED") == 0)
		return VM_EVENT_PANIC;
	if (strcmp(name, "BLOCK_IO_ERROR") == 0 && strcmp(data_str(event, "action"), "stop") == 0) {
		vm->state = VM_PAUSED;
		return VM_EVENT_IO_ERROR;
	}
	return is_merge_end(event, NULL) ? end_merge(vm, event) : VM_EVENT_NONE;
}

enum vm_event vm_events(struct vm *vm)
{
	enum vm_event found = vm->pending_event;
	struct err e;

	vm->pending_event = VM_EVENT_NONE;
	if (found != VM_EVENT_NONE)
		return found;
	int r = qmp_pump(vm->qemu.qmp, &e);
	while (found == VM_EVENT_NONE) {
		cleanup_json *event = qmp_event(vm->qemu.qmp);
		if (!event)
			break;
		found = translate(vm, event);
	}
	if (found == VM_EVENT_NONE && r < 0 && !vm->gone) {
		vm->gone = true;
		found = VM_EVENT_GONE;
	}
	return found;
}

static int check_image(const struct vm *vm, const struct vm_image *image, struct err *e)
{
	struct stat st;
	int flags = fcntl(image->fd, F_GETFL);

	if (image->lun < 1 || image->lun > VM_IMAGES_MAX)
		return err_set(e, ERR_LIMIT, 0, "a sandbox can have %d images", VM_IMAGES_MAX);
	if (vm->luns & 1ULL << image->lun)
		return err_set(e, ERR_EXISTS, 0, "there is an image at LUN %u already", image->lun);
	if (flags < 0 || (flags & O_ACCMODE) != O_RDONLY || fstat(image->fd, &st) < 0 ||
		!S_ISREG(st.st_mode))
		return err_set(e, ERR_INTERNAL, 0, "an image must be a file open read-only");
	return 0;
}

static int add_image_node(
	struct qmp *q, const struct vm_image *image, int64_t set, const char *node, struct err *e)
{
	char path[40];

	int r = qmp_call(
		q, "add-fd", json_pack("{s:I}", "fdset-id", (json_int_t)set), image->fd, NULL, e);
	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "/dev/fdset/%lld", (long long)set);
	return qmp_call(q, "blockdev-add",
		json_pack("{s:s, s:s, s:b, s:{s:s, s:s, s:s, s:b}}", "driver", "raw", "node-name",
			node, "read-only", 1, "file", "driver", "file", "filename", path, "locking",
			"off", "read-only", 1),
		QMP_FD_NONE, NULL, e);
}

static void remove_image_node(struct qmp *q, int64_t set, const char *node)
{
	struct err ignored;

	(void)!qmp_call(q, "blockdev-del", json_pack("{s:s}", "node-name", node), QMP_FD_NONE, NULL,
		&ignored);
	(void)!qmp_call(q, "remove-fd", json_pack("{s:I}", "fdset-id", (json_int_t)set),
		QMP_FD_NONE, NULL, &ignored);
}

int vm_attach(struct vm *vm, const struct vm_image *image, struct err *e)
{
	struct qmp *q = vm->qemu.qmp;
	char node[16], device[16];
	int r = check_image(vm, image, e);

	if (r < 0)
		return r;
	int64_t set = vm->chain.next_set++;
	(void)snprintf(node, sizeof(node), "image%u", image->lun);
	(void)snprintf(device, sizeof(device), "lun%u", image->lun);
	if ((r = add_image_node(q, image, set, node, e)) >= 0)
		r = qmp_call(q, "device_add",
			json_pack("{s:s, s:s, s:i, s:i, s:i, s:s, s:s}", "driver", "scsi-hd", "bus",
				QEMU_SCSI_BUS, "channel", 0, "scsi-id", 0, "lun", (int)image->lun,
				"drive", node, "id", device),
			QMP_FD_NONE, NULL, e);
	if (r < 0) {
		remove_image_node(q, set, node);
		return err_wrap(e, "cannot attach an image");
	}
	vm->luns |= 1ULL << image->lun;
	return 0;
}
