/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state directory: $KOSA8_HOME, else ~/.kosa8. 0700, owned by the caller.
 *
 *   catalog.db            catalog.h
 *   audit/                audit.h
 *   reserve               reserve.h
 *   templates/KEY/        vm/template.h
 *   auth.json             image/auth-file.h
 *   images/HEX.sqfs       one file system image per manifest digest (HEX: 64 digits)
 *   sandboxes/ID/         lock, control.sock, supervisor.log, qemu.log,
 *                         layers/ID.qcow2, checkpoints/ID/{pages,device,meta.json}
 *
 * Who holds sandboxes/ID/lock (base/file.h; it goes with the open file description, so a supervisor
 * inherits it) is the sandbox's supervisor or the client that is about to start it: whether a
 * sandbox is alive is asked of that lock and of nothing else. There are no pid files. Who removes a
 * sandbox holds its lock until the folder is gone.
 */
#ifndef KOSA8_STORE_HOME_H
#define KOSA8_STORE_HOME_H

#include "../base/err.h"

#include <stdbool.h>

struct home {
	int dirfd;
	char *path; /* absolute */
};

/* create: makes it and its folders when missing; else a missing one is ERR_NOT_FOUND. Refuses one
 * that belongs to another user or that others can write to. */
int home_open(bool create, struct home *ret, struct err *e) must_check;
void home_release(struct home *h);
#define cleanup_home __attribute__((cleanup(home_release)))

/* sandboxes/ID as a directory descriptor. create: makes it when missing, with the lock file and
 * the folders layers and checkpoints (catalog_sandbox_add() has done so for a new sandbox). */
int home_sandbox_dir(const struct home *h, const char *id, bool create, struct err *e) must_check;
int home_images_dir(const struct home *h, struct err *e) must_check;
int home_templates_dir(const struct home *h, struct err *e) must_check;
/* The sandbox's lock, held: ret_fd; ERR_WRONG_STATE with "busy" when somebody holds it,
 * ERR_NOT_FOUND when the sandbox has been removed meanwhile. */
int home_sandbox_lock(int sandbox_dirfd, int *ret_fd, struct err *e) must_check;
/* Whether somebody holds it, without disturbing who takes it. A negative errno when that cannot be
 * told. */
int home_sandbox_alive(int sandbox_dirfd) must_check;
/* Removes sandboxes/ID whole (moved aside first, so a crash leaves no half sandbox). */
int home_sandbox_remove(const struct home *h, const char *id, struct err *e) must_check;

#endif
