/* SPDX-License-Identifier: Apache-2.0 */
#include "spec-mounts.h"

#include "../base/fd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Connections that the kernel accepts ahead. */
#define BACKLOG 128

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static socklen_t address_of(const struct spec_port *p, union address *ret)
{
	*ret = (union address){0};
	if (inet_pton(AF_INET, p->ip, &ret->v4.sin_addr) == 1) {
		ret->v4.sin_family = AF_INET;
		ret->v4.sin_port = htons(p->host_port);
		return sizeof(ret->v4);
	}
	if (inet_pton(AF_INET6, p->ip, &ret->v6.sin6_addr) != 1)
		return 0;
	ret->v6.sin6_family = AF_INET6;
	ret->v6.sin6_port = htons(p->host_port);
	return sizeof(ret->v6);
}

static int failed(const struct spec_port *p, int errnum, struct err *e)
{
	char address[SPEC_ADDRESS_SIZE];

	spec_port_address(p, address);
	switch (errnum) {
	case EADDRINUSE:
		(void)err_set(e, ERR_EXISTS, errnum, "the address %s is in use by another program",
			address);
		return err_hint(e, "another port, or 0 for any that is free");
	case EACCES:
	case EPERM:
		(void)err_set(e, ERR_DENIED, errnum,
			"the address %s cannot be listened on: a port below 1024 needs privileges",
			address);
		return err_hint(e, "a port from 1024 on");
	case EADDRNOTAVAIL:
	case EAFNOSUPPORT:
		(void)err_set(e, ERR_INVALID, errnum, "this host has no address %s", p->ip);
		return err_hint(e, "127.0.0.1, or one that `ip address` shows");
	default:
		return err_errno(e, errnum, "cannot listen on %s", address);
	}
}

int spec_port_listen(const struct spec_port *p, int *ret_fd, uint16_t *ret_port, struct err *e)
{
	const int on = 1;
	union address a;
	socklen_t len = address_of(p, &a);

	if (len == 0)
		return err_set(e, ERR_INVALID, 0, "\"%.45s\" is no IP address", p->ip);
	cleanup_fd int fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return failed(p, errno, e);
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
		(a.any.sa_family == AF_INET6 &&
			setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0) ||
		bind(fd, &a.any, len) < 0 || listen(fd, BACKLOG) < 0 ||
		getsockname(fd, &a.any, &len) < 0)
		return failed(p, errno, e);
	*ret_port = ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
	*ret_fd = fd_take(&fd);
	return 0;
}
