/* SPDX-License-Identifier: Apache-2.0 */
#include "qemu.h"

#include "../base/fd.h"
#include "../base/sock.h"
#include "../base/spawn.h"
#include "../base/strv.h"
#include "../base/text.h"
#include "confine.h"
#include "tsc.h"
#include "vm.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_TAIL 2048

void qemu_init(struct qemu *q)
{
	*q = (struct qemu){.pidfd = -1, .mux = -1, .resume = -1, .net = -1, .fs = -1, .log_fd = -1};
}

int qemu_wait(struct qemu *q)
{
	if (q->pid > 0) {
		q->status = spawn_wait(q->pid);
		q->pid = 0;
	}
	return q->status;
}

void qemu_release(struct qemu *q)
{
	if (q->pid > 0) {
		(void)kill(q->pid, SIGKILL);
		(void)qemu_wait(q);
	}
	qmp_freep(&q->qmp);
	q->pidfd = fd_close(q->pidfd);
	q->mux = fd_close(q->mux);
	q->resume = fd_close(q->resume);
	q->net = fd_close(q->net);
	q->fs = fd_close(q->fs);
	q->log_fd = fd_close(q->log_fd);
}

/* The log is read back through a descriptor of its own: the caller's may be write-only. */
static void remember_log(struct qemu *q, int log_fd)
{
	char path[40];
	struct stat st;

	if (log_fd < 0 || fstat(log_fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", log_fd);
	q->log_fd = open(path, O_RDONLY | O_CLOEXEC);
	q->log_start = st.st_size;
}

int qemu_explain(const struct qemu *q, struct err *e)
{
	char raw[LOG_TAIL + 1], text[256];
	struct stat st;

	if (q->log_fd < 0 || fstat(q->log_fd, &st) < 0 || st.st_size <= q->log_start)
		return err_code(e);
	off_t from = st.st_size - q->log_start > LOG_TAIL ? st.st_size - LOG_TAIL : q->log_start;
	ssize_t n = fd_pread_full(q->log_fd, raw, LOG_TAIL, from);
	while (n > 0 && (raw[n - 1] == '\n' || raw[n - 1] == '\0'))
		n--;
	if (n <= 0)
		return err_code(e);
	raw[n] = '\0';
	const char *line = strrchr(raw, '\n');
	line = line ? line + 1 : raw;
	const char *prefix = "qemu-system-x86_64: ";
	if (text_starts_with(line, prefix))
		line += strlen(prefix);
	text_escape(line, text, sizeof(text));
	size_t len = strlen(e->what);
	(void)snprintf(e->what + len, sizeof(e->what) - len, " (QEMU says: %s)", text);
	if (strstr(text, "Cannot allocate memory"))
		return err_hint(e, "free some memory, or create the sandbox with less --memory");
	return err_code(e);
}

/* QMP and the ports; theirs[] are QEMU's ends, in the order of enum qemu_fd. */
#define STREAMS (QEMU_FD_FS - QEMU_FD_QMP + 1)

static int make_streams(struct qemu *q, int *ret_qmp, int theirs[static STREAMS], struct err *e)
{
	int *ours[STREAMS] = {ret_qmp, &q->mux, &q->resume, &q->net, &q->fs};
	int r = 0;

	for (size_t i = 0; i < STREAMS && r >= 0; i++) {
		int pair[2];
		r = sock_pair(pair);
		if (r < 0)
			break;
		*ours[i] = pair[0];
		theirs[i] = pair[1];
		if (i > 0)
			r = fd_set_nonblock(pair[0], true);
	}
	return r < 0 ? err_errno(e, -r, "making the sockets for QEMU") : 0;
}

/* The folder that holds QEMU's bin/, when that is not /usr. */
static const char *prefix_of(const char *qemu, char *ret, size_t size)
{
	if (text_starts_with(qemu, "/usr/"))
		return NULL;
	(void)snprintf(ret, size, "%s", qemu);
	for (int up = 0; up < 2; up++) {
		char *slash = strrchr(ret, '/');
		if (!slash || slash == ret)
			return NULL;
		*slash = '\0';
	}
	return ret;
}

static int spawn(struct qemu *q, const struct qemu_start *s, const int theirs[static STREAMS],
	char *const *argv, struct err *e)
{
	char prefix[sizeof(s->host->qemu)];
	struct confine_file files[] = {
		{QEMU_FD_RAM, true}, {QEMU_FD_KERNEL, false}, {QEMU_FD_INITRAMFS, false}};
	struct confine c = {.parent = getpid(),
		.prefix = prefix_of(s->host->qemu, prefix, sizeof(prefix)),
		.kvm = s->host->accel == VM_ACCEL_KVM,
		.ram_is_fd0 = !s->boot,
		.files = files,
		.files_len = s->boot ? sizeof(files) / sizeof(files[0]) : 0};
	struct spawn sp = {.argv = argv,
		.fds = {[QEMU_FD_RAM] = s->ram_fd,
			[QEMU_FD_OUT] = s->log_fd,
			[QEMU_FD_ERR] = s->log_fd,
			[QEMU_FD_QMP] = theirs[0],
			[QEMU_FD_MUX] = theirs[1],
			[QEMU_FD_RESUME] = theirs[2],
			[QEMU_FD_NET] = theirs[3],
			[QEMU_FD_FS] = theirs[4],
			[QEMU_FD_TOP_RW] = s->top_rw_fd,
			[QEMU_FD_TOP_RO] = s->top_ro_fd,
			[QEMU_FD_KERNEL] = s->kernel_fd,
			[QEMU_FD_INITRAMFS] = s->initramfs_fd},
		.fds_len = s->boot ? QEMU_FD_COUNT : QEMU_FD_KERNEL,
		.die_with_parent = true,
		.new_session = true,
		.confine = confine_child,
		.confine_ctx = &c};

	int r = spawn_start(&sp, &q->pid, &q->pidfd, e);
	if (r == -ENOENT)
		return err_hint(e, "apt install qemu-system-x86");
	return r;
}

int qemu_start(const struct qemu_start *s, struct qemu *ret, struct err *e)
{
	__attribute__((cleanup(qemu_release))) struct qemu q;
	cleanup_strv char **argv = NULL;
	int theirs[STREAMS] = {-1, -1, -1, -1, -1}, qmp_fd = -1;

	qemu_init(&q);
	uint64_t tsc_khz = s->boot && s->host->accel == VM_ACCEL_TCG ? tsc_measure_khz() : 0;
	int r = qemu_args(s->host, s->config, s->boot, s->top, tsc_khz, &argv, e);
	if (r < 0)
		return r;
	remember_log(&q, s->log_fd);
	r = make_streams(&q, &qmp_fd, theirs, e);
	if (r >= 0)
		r = spawn(&q, s, theirs, argv, e);
	for (size_t i = 0; i < STREAMS; i++)
		(void)fd_close(theirs[i]);
	if (r < 0) {
		(void)fd_close(qmp_fd);
		return r;
	}
	if (qmp_open(qmp_fd, VM_QMP_TIMEOUT_MS, &q.qmp, e) < 0) {
		(void)err_wrap(e, "QEMU did not start");
		return qemu_explain(&q, e);
	}
	*ret = q;
	qemu_init(&q);
	return 0;
}
