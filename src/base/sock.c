/* SPDX-License-Identifier: Apache-2.0 */
#include "sock.h"

#include "fd.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int address(int dirfd, const char *name, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	int n = snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s", dirfd, name);
	return n < 0 || (size_t)n >= sizeof(ret->sun_path) ? -ENAMETOOLONG : 0;
}

int sock_listen(int dirfd, const char *name)
{
	struct sockaddr_un addr;
	int r = address(dirfd, name, &addr);

	if (r < 0)
		return r;
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (unlinkat(dirfd, name, 0) < 0 && errno != ENOENT)
		return -errno;
	mode_t old = umask(0177);
	r = bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
	(void)umask(old);
	if (r < 0)
		return r;
	if (listen(fd, 128) < 0)
		return -errno;
	return fd_take(&fd);
}

int sock_connect(int dirfd, const char *name)
{
	struct sockaddr_un addr;
	int r = address(dirfd, name, &addr);

	if (r < 0)
		return r;
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	while (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		if (errno != EINTR)
			return -errno;
	return fd_take(&fd);
}

int sock_pair(int ret[2])
{
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret) < 0 ? -errno : 0;
}

int sock_peer(int fd, pid_t *ret_pid, uid_t *ret_uid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -errno;
	*ret_pid = cred.pid;
	*ret_uid = cred.uid;
	return 0;
}
