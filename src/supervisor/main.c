/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kosa8-supervisor ID: started by a client, with these descriptors:
 *
 *   1, 2  the log   3  the sandbox's lock, held   4  its socket, listening   5  the client
 *
 * The client's first request is "start" (op-start.c). kosa8-supervisor --doctor prints what the
 * engine needs of this machine as JSON.
 */
#include "doctor.h"
#include "op.h"

#include "../base/fd.h"
#include "../base/log.h"
#include "../proto/agent-session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FD_LOCK = 3, FD_LISTEN = 4, FD_CLIENT = 5 };

static struct supervisor supervisor;

static void on_accept(uv_poll_t *handle, int status, int events)
{
	struct supervisor *s = handle->data;
	struct conn *c;
	struct err e;

	(void)status;
	(void)events;
	int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
			log_warn("cannot accept a client: %s", strerror(errno));
		return;
	}
	if (conn_new(&s->loop, fd, &op_conn_events, s, &c, &e) < 0)
		log_warn("%s", e.what);
}

static void on_sigterm(uv_signal_t *handle, int signum)
{
	(void)signum;
	op_stop_by_signal(handle->data);
}

static int check_descriptors(void)
{
	struct stat st;

	for (int fd = FD_LOCK; fd <= FD_CLIENT; fd++)
		if (fstat(fd, &st) < 0 || (fd > FD_LOCK && !S_ISSOCK(st.st_mode)))
			return -EBADF;
	return 0;
}

static int init(struct supervisor *s, const char *id)
{
	struct conn *c;
	struct err e;

	*s = (struct supervisor){.id = id,
		.ends_left = AGENT_CONTAINERS_MAX,
		.listen_fd = FD_LISTEN,
		.lock_fd = FD_LOCK,
		.dirfd = -1,
		.layers_dirfd = -1,
		.checkpoints_dirfd = -1,
		.images_dirfd = -1,
		.templates_dirfd = -1,
		.home = {.dirfd = -1},
		.template = {.dirfd = -1}};
	(void)snprintf(s->row.id, sizeof(s->row.id), "%s", id);
	if (uv_loop_init(&s->loop) < 0 || uv_timer_init(&s->loop, &s->timer) < 0 ||
		uv_timer_init(&s->loop, &s->disk_timer) < 0 ||
		uv_signal_init(&s->loop, &s->sigterm) < 0 || fd_set_nonblock(FD_LISTEN, true) < 0 ||
		uv_poll_init(&s->loop, &s->listen_poll, FD_LISTEN) < 0)
		return -1;
	s->timer.data = s->disk_timer.data = s->listen_poll.data = s->sigterm.data = s;
	(void)uv_signal_start(&s->sigterm, on_sigterm, SIGTERM);
	(void)uv_poll_start(&s->listen_poll, UV_READABLE, on_accept);
	if (conn_new(&s->loop, FD_CLIENT, &op_conn_events, s, &c, &e) < 0) {
		log_warn("%s", e.what);
		return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--doctor") == 0)
		return doctor_print();
	if (argc != 2 || strlen(argv[1]) != CATALOG_ID_SIZE - 1 || check_descriptors() < 0) {
		(void)fprintf(stderr, "kosa8-supervisor is started by kosa8\n");
		return 2;
	}
	log_init("kosa8-supervisor", argv[1]);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	(void)signal(SIGINT, SIG_IGN);
	/* What guests and clients sent passes through here: none of it goes to a core file. */
	(void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	/* One thread is enough for hashing and fsync (uv_queue_work). */
	(void)setenv("UV_THREADPOOL_SIZE", "1", 0);
	for (int fd = FD_LOCK; fd <= FD_CLIENT; fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	if (init(&supervisor, argv[1]) < 0)
		return 1;
	(void)uv_run(&supervisor.loop, UV_RUN_DEFAULT);
	/* Its thread may still read it when the loop was left early. */
	if (!supervisor.settling)
		audit_close(supervisor.audit);
	catalog_close(supervisor.catalog);
	return 0;
}
