/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging without a VM: a QEMU that has no machine runs the same job (block-stream) that merges
 * layers of a running VM. The chain it sees is the two files alone: what neither has stays
 * unallocated in child, so that what is below them still shows through. (qemu-img cannot do this:
 * `rebase` takes the chain from the files' headers, which name none, and would lose that a cluster
 * is explicitly zero in parent.)
 *
 * Killed at any point, child is whole: a copied cluster is what was read through parent before,
 * and QEMU writes data and metadata in that order. The next merge goes on.
 */
#include "layer.h"

#include "../base/fd.h"
#include "../base/sock.h"
#include "../base/spawn.h"
#include "confine.h"
#include "layer-file.h"
#include "qmp.h"
#include "vm.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define QMP_FD 3
#define SET_PARENT 1
#define SET_CHILD 2
#define JOB "merge"
#define JOB_TIMEOUT_MS (60ll * 60 * 1000)

struct helper {
	pid_t pid;
	struct qmp *qmp;
};

static void helper_release(struct helper *h)
{
	qmp_freep(&h->qmp);
	if (h->pid > 0) {
		(void)kill(h->pid, SIGKILL);
		(void)!spawn_wait(h->pid);
	}
}

static int helper_start(struct helper *h, const char *qemu, struct err *e)
{
	int pair[2];
	struct confine c = {.parent = getpid()};
	char *const argv[] = {(char *)qemu, "-machine", "none", "-nodefaults", "-no-user-config",
		"-nographic", "-S", "-chardev", "socket,id=qmp,fd=3", "-mon",
		"chardev=qmp,mode=control", "-sandbox",
		"on,obsolete=deny,elevateprivileges=deny,resourcecontrol=deny,spawn=deny", NULL};
	int r = sock_pair(pair);

	if (r < 0)
		return err_errno(e, -r, "making the socket for QEMU");
	struct spawn s = {.argv = argv,
		.fds = {-1, -1, -1, [QMP_FD] = pair[1]},
		.fds_len = QMP_FD + 1,
		.die_with_parent = true,
		.confine = confine_child,
		.confine_ctx = &c};
	r = spawn_start(&s, &h->pid, NULL, e);
	(void)fd_close(pair[1]);
	if (r < 0) {
		(void)fd_close(pair[0]);
		return r;
	}
	return qmp_open(pair[0], VM_QMP_TIMEOUT_MS, &h->qmp, e);
}

static int add(struct qmp *q, int fd, int set, const char *name, bool writable, json_t *backing,
	struct err *e)
{
	char path[40];
	int r = qmp_call(q, "add-fd", json_pack("{s:i}", "fdset-id", set), fd, NULL, e);

	if (r < 0) {
		json_decref(backing);
		return r;
	}
	(void)snprintf(path, sizeof(path), "/dev/fdset/%d", set);
	return qmp_call(q, "blockdev-add",
		json_pack("{s:s, s:s, s:b, s:s, s:o, s:{s:s, s:s, s:s, s:b, s:s}}", "driver",
			"qcow2", "node-name", name, "read-only", !writable, "discard", "unmap",
			"backing", backing, "file", "driver", "file", "filename", path, "locking",
			"off", "read-only", !writable, "discard", "unmap"),
		QMP_FD_NONE, NULL, e);
}

static bool is_job_end(const json_t *event, void *ctx)
{
	(void)ctx;
	return strncmp(qmp_event_name(event), "BLOCK_JOB_C", strlen("BLOCK_JOB_C")) == 0;
}

static int run_job(struct qmp *q, struct err *e)
{
	cleanup_json *end = NULL;
	int r = qmp_call(q, "block-stream",
		json_pack("{s:s, s:s}", "job-id", JOB, "device", "child"), QMP_FD_NONE, NULL, e);

	if (r < 0 || (r = qmp_wait(q, is_job_end, NULL, JOB_TIMEOUT_MS, &end, e)) < 0)
		return r;
	const char *why = json_string_value(json_object_get(json_object_get(end, "data"), "error"));
	if (why)
		return err_set(e, strstr(why, strerror(ENOSPC)) ? ERR_NO_SPACE : ERR_IO, 0,
			"merging disk layers: %.100s", why);
	return qmp_call(q, "quit", NULL, QMP_FD_NONE, NULL, e);
}

int layer_merge(const struct vm_host *host, int layers_dirfd, const char *child, const char *parent,
	struct err *e)
{
	cleanup_fd int child_fd = -1, parent_fd = -1;
	__attribute__((cleanup(helper_release))) struct helper h = {0};
	int r;

	if ((r = layer_open(layers_dirfd, child, true, 0, &child_fd, e)) < 0 ||
		(r = layer_open(layers_dirfd, parent, false, 0, &parent_fd, e)) < 0 ||
		(r = helper_start(&h, host->qemu, e)) < 0 ||
		(r = add(h.qmp, parent_fd, SET_PARENT, "parent", false, json_null(), e)) < 0 ||
		(r = add(h.qmp, child_fd, SET_CHILD, "child", true, json_string("parent"), e)) <
			0 ||
		(r = run_job(h.qmp, e)) < 0)
		return r;
	int code = spawn_wait(h.pid);
	h.pid = 0;
	if (code != 0)
		return err_set(e, ERR_IO, 0, "merging disk layers: QEMU ended with code %d", code);
	return layer_check(child_fd, child, 0, e);
}
