/* SPDX-License-Identifier: Apache-2.0 */
#include "start.h"

#include "connect.h"
#include "spec-change.h"

#include "../base/fd.h"
#include "../base/install.h"
#include "../base/sock.h"
#include "../base/spawn.h"
#include "../store/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_FILE "supervisor.log"
#define LOG_MAX (1024 * 1024)
#define LOG_TAIL 4096

static int open_log(int sandbox_dirfd, off_t *ret_size, struct err *e)
{
	cleanup_fd int fd = openat(sandbox_dirfd, LOG_FILE,
		O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 ||
		(st.st_size > LOG_MAX && (ftruncate(fd, 0) < 0 || fstat(fd, &st) < 0)))
		return err_errno(e, errno, "cannot open the supervisor's log");
	*ret_size = st.st_size;
	return fd_take(&fd);
}

/* Adds the last line that the supervisor wrote since `from` to the error: it says why. */
static int explain(int sandbox_dirfd, off_t from, struct err *e)
{
	char tail[LOG_TAIL + 1];
	struct stat st;
	cleanup_fd int fd = openat(sandbox_dirfd, LOG_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_code(e);
	off_t at = st.st_size - from > LOG_TAIL ? st.st_size - LOG_TAIL : from;
	ssize_t n = fd_pread_full(fd, tail, LOG_TAIL, at);
	while (n > 0 && tail[n - 1] == '\n')
		n--;
	if (n <= 0)
		return err_code(e);
	tail[n] = '\0';
	char *line = strrchr(tail, '\n');
	size_t used = strlen(e->what);
	(void)snprintf(e->what + used, sizeof(e->what) - used, ": %.200s", line ? line + 1 : tail);
	return err_code(e);
}

static int spawn_supervisor(
	const struct sandbox *s, int lock_fd, int log_fd, int pair_fd, struct err *e)
{
	char program[PATH_MAX], id[CATALOG_ID_SIZE];
	pid_t pid;
	int r = install_program("kosa8-supervisor", program, sizeof(program), e);

	if (r < 0)
		return r;
	cleanup_fd int listen_fd = sock_listen(s->dirfd, "control.sock");
	if (listen_fd < 0)
		return err_errno(
			e, -listen_fd, "cannot open the control socket of %s", s->row.name);
	memcpy(id, s->row.id, sizeof(id));
	char *argv[] = {program, id, NULL};
	struct spawn sp = {.argv = argv,
		.fds = {-1, log_fd, log_fd, lock_fd, listen_fd, pair_fd},
		.fds_len = 6,
		.new_session = true};
	/* Not waited for: it outlives this process and is init's child then. */
	return spawn_start(&sp, &pid, NULL, e);
}

/* With the record that was begun: the supervisor ends it, whatever becomes of this process. */
static json_t *start_request(
	const struct context *c, const char *mode, const char *checkpoint, const struct action *a)
{
	json_t *request = context_request(c, "start");

	if (request && json_object_set_new(request, "mode", json_string(mode)) == 0 &&
		json_object_set_new(request, "record",
			json_pack("{s:I, s:s}", "seq", (json_int_t)a->seq, "action",
				a->event.action)) == 0 &&
		(!checkpoint ||
			json_object_set_new(request, "checkpoint", json_string(checkpoint)) == 0))
		return request;
	json_decref(request);
	return NULL;
}

int supervisor_start(const struct context *c, const struct sandbox *s, int lock_fd,
	const char *mode, const char *checkpoint, struct action *a, struct err *e)
{
	cleanup_json *request = start_request(c, mode, checkpoint, a);
	cleanup_json *result = NULL;
	cleanup_connection struct connection con = {.fd = -1};
	off_t log_size = 0;
	int pair[2], r;

	/* The supervisor finds the same state directory wherever it runs. */
	if (!request || setenv("KOSA8_HOME", c->home.path, 1) < 0)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	cleanup_fd int log_fd = open_log(s->dirfd, &log_size, e);
	if (log_fd < 0)
		return log_fd;
	if ((r = sock_pair(pair)) < 0)
		return err_errno(e, -r, "cannot start the supervisor of %s", s->row.name);
	connection_init(&con, pair[0], &s->row);
	r = spawn_supervisor(s, lock_fd, log_fd, pair[1], e);
	(void)fd_close(pair[1]);
	if (r < 0 || (r = connection_request(&con, request, e)) < 0)
		return r;
	r = connection_wait(&con, -1, &result, e);
	if (!con.lost) {
		a->seq = 0;
		return r;
	}
	(void)err_hint(e, "kosa8 doctor");
	return explain(s->dirfd, log_size, e);
}

int sandbox_start(struct context *c, const struct sandbox *s,
	const struct checkpoint_row *checkpoint, struct err *e)
{
	const char *id = checkpoint ? checkpoint->id : NULL;
	cleanup_json *detail = json_pack("{s:s*}", "checkpoint", id);
	cleanup_json *bound = NULL;
	cleanup_fd int lock = -1;
	int r;

	if (s->dirfd < 0)
		return err_set(e, ERR_CORRUPT, 0, "the folder of %s is missing", s->row.name);
	if ((r = home_sandbox_lock(s->dirfd, &lock, e)) < 0)
		return err_wrap(e, "%s", s->row.name);
	if ((r = sandbox_bind(s, checkpoint, &bound, e)) < 0)
		return r;
	spec_describe(&s->row, detail);
	struct action a = {.event = {.action = checkpoint ? "rewind" : "sandbox.start",
				   .sandbox = s->row.name,
				   .sandbox_id = s->row.id,
				   .bound = bound,
				   .detail = detail}};
	if ((r = action_begin(c, &a, e)) < 0)
		return r;
	r = supervisor_start(c, s, lock, checkpoint ? "rewind" : "boot", id, &a, e);
	return action_end(c, &a, r, e);
}
