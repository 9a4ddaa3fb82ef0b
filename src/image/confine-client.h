/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Confinement of kosa8-image, which reads documents and archives that anybody may have written.
 * Once in force, also for kosa8-unpack, which it starts and which confines itself further
 * (confine.h):
 *
 *   must        no new privileges by exec, no core file, of capabilities (root) only those to pass
 *               file permissions; no look into other processes, no mounts, no keys, no io_uring, no
 *               BPF
 *               CONFINE_ARCHIVE: no socket of any kind; CONFINE_PULL: none but of IPv4, IPv6 and
 *               netlink, so none that leads to another program of the user
 *   should      (Landlock) writing in the images folder only, making nothing there but files,
 *               folders and links; reading there, in the system's folders and configuration, and
 *               what the caller names; executing the system's programs and kosa8-unpack; no
 *               listening TCP socket; no signal to a process outside
 *   must not    keep kosa8-unpack from starting, in a build folder or installed
 *
 * Programs that need the user's own rights (credential helpers, which read the user's keyring) must
 * have run before: they would inherit all of this.
 */
#ifndef KOSA8_IMAGE_CONFINE_CLIENT_H
#define KOSA8_IMAGE_CONFINE_CLIENT_H

#include "../base/err.h"

enum confine_image {
	CONFINE_PULL,	 /* pull, login: talks to registries; reads what name lookups need */
	CONFINE_ARCHIVE, /* load, import, save, show: no network */
};

/* images_dir: NULL: none. readable: further files and folders that may be read, NULL-terminated, or
 * NULL; one that is not there, and "-", is no error. Call it while the process has one thread.
 * Without Landlock in the kernel the rest is in force. */
int confine_image_worker(enum confine_image what, const char *images_dir,
	const char *const *readable, struct err *e) must_check;

#endif
