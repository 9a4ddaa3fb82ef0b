/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's end of the relay. */
#include "relay.h"

#include "../base/fd.h"
#include "../base/log.h"
#include "fuse-slots.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* In the relay: all else of the agent's is closed. */
#define CONTROL_FD 3
#define PORT_FD 4

void relay_path(uint32_t id, const char *what, char ret[static RELAY_PATH_SIZE])
{
	(void)snprintf(ret, RELAY_PATH_SIZE, PATH_MOUNTS "/%u/%s", id, what);
}

void relay_init(struct relay *r)
{
	*r = (struct relay){.socket.fd = -1};
}

static int keep_descriptors(int control, int port)
{
	int from[2] = {control, port};

	for (int i = 0; i < 2; i++) {
		from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 10);
		if (from[i] < 0)
			return -errno;
	}
	if (dup2(from[0], CONTROL_FD) < 0 || dup2(from[1], PORT_FD) < 0)
		return -errno;
	return close_range(PORT_FD + 1, ~0u, 0) < 0 ? -errno : 0;
}

int relay_start(struct relay *r, struct loop *loop, int port_fd, struct err *e)
{
	cleanup_fd int port = port_fd;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_errno(e, errno, "channel to the relay");
	fuse_slots_reserve();
	pid_t pid = fork();
	if (pid == 0) {
		if (keep_descriptors(pair[1], port) < 0)
			_exit(1);
		relay_main(CONTROL_FD, PORT_FD);
	}
	(void)fd_close(pair[1]);
	if (pid < 0) {
		(void)fd_close(pair[0]);
		return err_errno(e, errno, "start the relay");
	}
	r->pid = pid;
	return loop_watch(loop, &r->socket, pair[0], WATCH_READ, e);
}

bool relay_send(struct relay *r, const struct relay_message *m)
{
	if (r->socket.fd < 0)
		return false;
	if (send(r->socket.fd, m, sizeof(*m), MSG_NOSIGNAL) == (ssize_t)sizeof(*m))
		return true;
	log_warn("tell the relay: %s", strerror(errno));
	return false;
}

void relay_stand(struct relay *r, uint32_t number, int64_t deadline_ms)
{
	struct relay_message m = {.op = RELAY_STAND, .id = number, .deadline_ms = deadline_ms};

	(void)relay_send(r, &m);
}

void relay_resume(struct relay *r)
{
	struct relay_message m = {.op = RELAY_RESUME};

	(void)relay_send(r, &m);
}

void relay_new_epoch(struct relay *r, uint32_t epoch, const unsigned char *nonce)
{
	struct relay_message m = {.op = RELAY_EPOCH, .epoch = epoch};

	memcpy(m.nonce, nonce, sizeof(m.nonce));
	(void)relay_send(r, &m);
}

int relay_next(struct relay *r, struct relay_message *ret)
{
	while (r->socket.readable) {
		ssize_t n = recv(r->socket.fd, ret, sizeof(*ret), 0);

		if (n == (ssize_t)sizeof(*ret)) {
			ret->text[sizeof(ret->text) - 1] = '\0';
			return 1;
		}
		if (n >= 0 || errno != EINTR)
			r->socket.readable = false;
	}
	return 0;
}

bool relay_reaped(struct relay *r, struct loop *loop, pid_t pid)
{
	if (pid != r->pid || pid == 0)
		return false;
	log_warn("the relay of the mounts has ended");
	loop_unwatch(loop, &r->socket);
	r->pid = 0;
	return true;
}
