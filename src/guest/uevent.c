/* SPDX-License-Identifier: Apache-2.0 */
#include "uevent.h"

#include "../base/clock.h"
#include "../base/fd.h"

#include <errno.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sys/socket.h>

#define UEVENT_GROUP_KERNEL 1
#define UEVENT_DRAIN_MAX 1024

int uevent_open(struct err *e)
{
	struct sockaddr_nl addr = {.nl_family = AF_NETLINK, .nl_groups = UEVENT_GROUP_KERNEL};
	cleanup_fd int fd = socket(
		AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);

	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return err_errno(e, errno, "uevent socket");
	return fd_take(&fd);
}

bool uevent_drain(int fd)
{
	bool news = false;

	for (int i = 0; i < UEVENT_DRAIN_MAX; i++) {
		struct sockaddr_nl from = {0};
		socklen_t len = sizeof(from);
		char byte;
		ssize_t n = recvfrom(fd, &byte, 1, MSG_TRUNC, (struct sockaddr *)&from, &len);

		/* ENOBUFS: some were lost, which is news too. */
		if (n < 0 && errno == ENOBUFS)
			news = true;
		else if (n < 0)
			break;
		else if (from.nl_pid == 0)
			news = true;
	}
	return news;
}

bool uevent_wait(int fd, int64_t deadline_ms)
{
	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		if (uevent_drain(fd))
			return true;
		int left = clock_left_ms(deadline_ms);
		if (left == 0)
			return false;
		(void)poll(&p, 1, left);
	}
}
