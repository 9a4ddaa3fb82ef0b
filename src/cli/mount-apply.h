/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what was shown of a cow mount's changes to the host's folder: the upper tree comes a
 * second time, and only what was selected of it is taken. What has become something else meanwhile,
 * in the sandbox or on the host, is left as it is on the host, and told: nothing is removed or
 * replaced that was not shown.
 */
#ifndef KOSA8_CLI_MOUNT_APPLY_H
#define KOSA8_CLI_MOUNT_APPLY_H

#include "mount-diff.h"

/* Selects what is at or below these paths (of the mount, or absolute in the guest) and the folders
 * that it needs. ERR_NOT_FOUND for one where nothing changed; ERR_INVALID. */
int mount_apply_select(
	struct mount_diff *d, const char *const *paths, size_t len, struct err *e) must_check;
/* In a process of its own, which can change files below the host's folder only. */
int mount_apply(const struct context *c, const struct sandbox *s, struct mount_diff *d,
	struct copy_io *io, struct err *e) must_check;

#endif
