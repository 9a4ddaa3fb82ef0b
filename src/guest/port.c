/* SPDX-License-Identifier: Apache-2.0 */
#include "port.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/file.h"
#include "uevent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#define PORTS "/sys/class/virtio-ports"

static bool has_name(int dirfd, const char *device, const char *name)
{
	cleanup_buf struct buf text = {0};
	char path[300];

	buf_init(&text, 4096);
	(void)snprintf(path, sizeof(path), "%s/name", device);
	if (file_read(dirfd, path, &text) < 0 || !buf_cstr(&text))
		return false;
	text.data[strcspn((char *)text.data, "\n")] = '\0';
	return strcmp((char *)text.data, name) == 0;
}

/* The descriptor, -ENOENT while there is no such port, or another error. */
static int open_now(const char *name)
{
	DIR *d = opendir(PORTS);
	struct dirent *de;
	int r = -ENOENT;

	if (!d)
		return -ENOENT;
	while (r == -ENOENT && (de = readdir(d))) {
		char path[300];

		if (de->d_name[0] == '.' || !has_name(dirfd(d), de->d_name, name))
			continue;
		(void)snprintf(path, sizeof(path), "/dev/%s", de->d_name);
		int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
		r = fd < 0 ? -errno : fd;
	}
	(void)closedir(d);
	return r;
}

int port_open(const char *name, int uevent_fd, int64_t deadline_ms, struct err *e)
{
	int r;

	while ((r = open_now(name)) == -ENOENT)
		if (!uevent_wait(uevent_fd, deadline_ms))
			break;
	return r < 0 ? err_errno(e, -r, "port %s", name) : r;
}
