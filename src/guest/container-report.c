/* SPDX-License-Identifier: Apache-2.0 */
#include "container-report.h"

#include "../base/fd.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

int container_report_pair(int ret[static 2], struct err *e)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(e, errno, "report channel");
	int r = fd_set_nonblock(pair[0], true);
	if (r < 0) {
		(void)fd_close(pair[0]);
		(void)fd_close(pair[1]);
		return err_errno(e, -r, "report channel");
	}
	ret[0] = pair[0];
	ret[1] = pair[1];
	return 0;
}

int container_report_receive(
	int fd, struct container_report *ret, struct container_started *ret_fds)
{
	struct container_report m;
	int fds[2] = {-1, -1};
	size_t n = 0;

	*ret_fds = (struct container_started){.program = -1, .terminal = -1};
	ssize_t got = fd_recv_fds(fd, &m, sizeof(m), fds, 2, &n);
	if (got <= 0)
		return (int)got;
	ret_fds->program = fds[0];
	ret_fds->terminal = fds[1];
	if (got != (ssize_t)sizeof(m))
		return -EPROTO;
	m.reply.text[AGENT_TEXT_MAX - 1] = '\0';
	*ret = m;
	return 1;
}

static void tell(int fd, const struct container_report *m, const int *fds, size_t n)
{
	(void)!fd_send_fds(fd, m, sizeof(*m), fds, n);
}

void container_report_started(int fd, const struct container_started *started)
{
	struct container_report m = {.event = CONTAINER_STARTED};
	int fds[2] = {started->program, started->terminal};

	/* A terminal comes with a program only. */
	tell(fd, &m, fds, fds[0] < 0 ? 0 : fds[1] < 0 ? 1 : 2);
}

void container_report_ended(int fd, int wait_status)
{
	struct container_report m = {.event = CONTAINER_ENDED, .value = wait_status};

	tell(fd, &m, NULL, 0);
}

void container_report_failed(int fd, const struct agent_reply *reply)
{
	struct container_report m = {.event = CONTAINER_FAILED, .reply = *reply};

	tell(fd, &m, NULL, 0);
}

void container_report_error(int fd, const struct err *e)
{
	struct agent_reply reply = {.status = (uint32_t)-err_code(e), .fail = AGENT_FAIL_SETUP};

	(void)snprintf(reply.text, sizeof(reply.text), "%.*s", AGENT_TEXT_MAX - 1, e->what);
	container_report_failed(fd, &reply);
}
