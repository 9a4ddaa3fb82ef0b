/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/spawn.h"
#include "../base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT_MAX 4096

/* Keeps the first OUTPUT_MAX bytes of what it prints until it closes its output. */
static int collect(int fd, struct buf *out, int64_t deadline_ms)
{
	char chunk[1024];

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int n = poll(&p, 1, clock_left_ms(deadline_ms));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ETIMEDOUT;
		ssize_t got = read(fd, chunk, sizeof(chunk));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : 0;
		if (out->len + (size_t)got < out->max)
			buf_put(out, chunk, (size_t)got);
	}
}

static int failed(const char *what, const char *tool, int code, struct buf *out, struct err *e)
{
	char text[256] = "";
	const char *said = buf_cstr(out);

	if (said) {
		const char *end = said + strlen(said);
		while (end > said && end[-1] == '\n')
			end--;
		const char *line = end;
		while (line > said && line[-1] != '\n')
			line--;
		char last[256];
		(void)snprintf(last, sizeof(last), "%.*s", (int)(end - line), line);
		text_escape(last, text, sizeof(text));
	}
	enum err_kind kind = strstr(text, strerror(ENOSPC)) ? ERR_NO_SPACE : ERR_IO;
	if (text[0])
		return err_set(e, kind, 0, "%s: %s", what, text);
	return err_set(e, kind, 0, "%s: %s ended with code %d", what, tool, code);
}

int tool_run(char *const *argv, char *const *envp, int fd, const char *what, struct err *e)
{
	cleanup_buf struct buf out = {0};
	int pipefd[2];
	pid_t pid;

	buf_init(&out, OUTPUT_MAX);
	if (pipe2(pipefd, O_CLOEXEC) < 0)
		return err_errno(e, errno, "%s", what);
	struct spawn s = {.argv = argv,
		.envp = envp,
		.fds = {-1, pipefd[1], pipefd[1], fd},
		.fds_len = 4,
		.die_with_parent = true};
	int r = spawn_start(&s, &pid, NULL, e);
	(void)fd_close(pipefd[1]);
	if (r < 0) {
		(void)fd_close(pipefd[0]);
		return err_wrap(e, "%s", what);
	}
	r = collect(pipefd[0], &out, clock_mono_ms() + TOOL_DEADLINE_MS);
	(void)fd_close(pipefd[0]);
	if (r < 0)
		(void)kill(pid, SIGKILL);
	int code = spawn_wait(pid);
	if (r < 0)
		return err_errno(e, -r, "%s: %s", what, argv[0]);
	return code == 0 ? 0 : failed(what, argv[0], code, &out, e);
}
