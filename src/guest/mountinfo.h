/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is mounted in a namespace, from /proc/PID/mountinfo (proc_pid_mountinfo(5)). Mounts are told
 * apart by device, not by path: a path in a container leads where its programs want it to.
 */
#ifndef KOSA8_GUEST_MOUNTINFO_H
#define KOSA8_GUEST_MOUNTINFO_H

#include <stdbool.h>
#include <stddef.h>

#define MOUNTINFO_DEVICE_SIZE 24
#define MOUNTINFO_PATH_SIZE 4096
/* More than that is no file of ours to read. */
#define MOUNTINFO_MAX (4u << 20)

struct mountinfo {
	unsigned id;
	char device[MOUNTINFO_DEVICE_SIZE]; /* "0:45" */
	char path[MOUNTINFO_PATH_SIZE];	    /* seen from the root of the process */
};

/* One line without its newline. False: it is none, or a path too long. */
bool mountinfo_parse(const char *line, size_t len, struct mountinfo *ret);
/* Calls each() for every line that can be parsed, until it says false. 0 or a negative errno. */
int mountinfo_read(int fd, bool (*each)(void *ctx, const struct mountinfo *m), void *ctx);
/* The device of what is mounted last on a path of the caller's own namespace. 0, -ENOENT, ... */
int mountinfo_device(const char *path, char ret[static MOUNTINFO_DEVICE_SIZE]);

#endif
