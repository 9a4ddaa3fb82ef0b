/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A running machine: the VM process (vm/vm.h), the channel to its agent and the two links beside
 * it, and the images attached to it, on the supervisor's loop. A sandbox has one; during a rewind
 * the next one exists beside it until it answers.
 */
#ifndef KOSA8_SUPERVISOR_MACHINE_H
#define KOSA8_SUPERVISOR_MACHINE_H

#include "channel.h"
#include "link.h"

#include "../vm/vm.h"

#include <uv.h>

#define MACHINE_DIGEST_SIZE 65 /* hex, NUL */

struct fs_answer; /* fs-pool.h */
struct machine;

struct machine_image {
	uint32_t lun;
	char digest[MACHINE_DIGEST_SIZE];
};

struct machine_events {
	/* The agent answers; called once. */
	void (*ready)(void *ctx, struct machine *m);
	void (*quiesced)(void *ctx, struct machine *m, uint32_t number);
	void (*session_frame)(void *ctx, struct machine *m, const struct frame *f);
	/* Frames of kosa8.net and kosa8.fs. <0: it breaks the protocol, e says how, and the machine
	 * dies. NULL: they are ignored. */
	int (*net_frame)(void *ctx, struct machine *m, const struct frame *f, struct err *e);
	int (*fs_frame)(void *ctx, struct machine *m, const struct frame *f, struct err *e);
	/* What QEMU reports, but for VM_EVENT_GONE. */
	void (*vm_event)(void *ctx, struct machine *m, enum vm_event event);
	/* The process ended, or the channel or a link broke; called once, last. */
	void (*died)(void *ctx, struct machine *m, const struct err *why);
};

struct machine_source {
	const struct vm_host *host;
	const struct vm_template *template; /* only used during the call */
	int layers_dirfd;
	int images_dirfd;
	const char *const *layers; /* from the bottom to the writable top */
	size_t layers_len;
	const struct machine_image *images;
	size_t images_len;
	int pages_fd; /* -1: the template's RAM and device state */
	int device_fd;
	uint32_t epoch;
};

/* Starts the process, loads its state and lets it run; `ready` follows. log_fd: QEMU's stderr. */
int machine_start(uv_loop_t *loop, const struct machine_source *source, int log_fd,
	const struct machine_events *events, void *ctx, struct machine **ret,
	struct err *e) must_check;
/* Kills the process. Allowed in any callback. Accepts NULL. */
void machine_free(struct machine *m);

struct vm *machine_vm(struct machine *m);
struct channel *machine_channel(struct machine *m);
/* kosa8.net and kosa8.fs; link_send() to them, then machine_kick(). An agent that does not open a
 * port leaves its link in LINK_SYNCING. */
struct link *machine_net(struct machine *m);
struct link *machine_fs(struct machine *m);
/* An answer to a request that named a slot. */
void machine_fs_answer(struct machine *m, const struct fs_answer *a);
uint32_t machine_epoch(const struct machine *m);
size_t machine_images_len(const struct machine *m);
const struct machine_image *machine_image_at(const struct machine *m, size_t i);
/* Writes what channel and links have queued; call after a batch of channel_send(), link_send(). */
void machine_kick(struct machine *m);

/* Asks the guest to stand still (channel_quiesce()): mux and net are held at once, fs when QUIESCED
 * came. Returns the number that `quiesced` will carry. */
uint32_t machine_quiesce(struct machine *m);
/* After the pause of a machine that runs again: channel_resume() of the same epoch; nothing is held
 * any more. */
int machine_resume(struct machine *m, struct err *e) must_check;

/* Makes the image available in the guest; done is called with NULL, or with what went wrong. At
 * once when it is there already. images_dirfd as in the source. */
int machine_attach(struct machine *m, const char *digest,
	void (*done)(void *ctx, const struct err *why), void *ctx, struct err *e) must_check;

#endif
