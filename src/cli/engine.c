/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/install.h"
#include "../base/log.h"
#include "../base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#define ANSWER_MAX (256u * 1024)
#define ANSWER_MS 30000
#define CHECKS_MAX 64

static int read_all(int fd, struct buf *b, struct err *e)
{
	int64_t deadline = clock_mono_ms() + ANSWER_MS;
	char chunk[4096];

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int n = poll(&p, 1, clock_left_ms(deadline));
		if (n == 0)
			return err_set(e, ERR_TIMEOUT, 0, "kosa8-supervisor --doctor does not end");
		ssize_t got = n < 0 ? -1 : read(fd, chunk, sizeof(chunk));
		if (got < 0 && errno != EINTR)
			return err_errno(e, errno, "reading from kosa8-supervisor");
		if (got == 0)
			return 0;
		if (got > 0)
			buf_put(b, chunk, (size_t)got);
		if (buf_failed(b))
			return err_set(
				e, ERR_PROTOCOL, 0, "kosa8-supervisor --doctor says too much");
	}
}

int engine_ask(json_t **ret, struct err *e)
{
	cleanup_json *answer = NULL;
	cleanup_buf struct buf b = {0};
	char program[PATH_MAX];
	char *argv[] = {program, (char[]){"--doctor"}, NULL};
	int pipefd[2], r;
	json_t *checks;
	pid_t pid;

	buf_init(&b, ANSWER_MAX);
	if ((r = install_program("kosa8-supervisor", program, sizeof(program), e)) < 0)
		return r;
	if (pipe2(pipefd, O_CLOEXEC) < 0)
		return err_errno(e, errno, "cannot start kosa8-supervisor");
	cleanup_fd int in = pipefd[0];
	struct spawn s = {.argv = argv,
		.fds = {-1, pipefd[1], STDERR_FILENO},
		.fds_len = 3,
		.die_with_parent = true};
	r = spawn_start(&s, &pid, NULL, e);
	(void)fd_close(pipefd[1]);
	if (r < 0)
		return r;
	r = read_all(in, &b, e);
	if (r < 0)
		(void)kill(pid, SIGKILL);
	/* Its status does not matter: the answer says what failed. */
	if (spawn_wait(pid) < 0)
		log_debug("kosa8-supervisor --doctor was not ours to wait for");
	if (r < 0 ||
		(r = json_parse_object(b.data, b.len, "kosa8-supervisor's answer", &answer, e)) <
			0 ||
		(r = json_get_array(answer, "checks", CHECKS_MAX, &checks, e)) < 0)
		return r;
	*ret = json_incref(answer);
	return 0;
}
