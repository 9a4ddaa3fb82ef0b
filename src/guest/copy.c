/* SPDX-License-Identifier: Apache-2.0 */
#include "copy.h"

#include "../base/fd.h"
#include "../base/file.h"
#include "../base/text.h"
#include "boot.h"
#include "container.h"
#include "copy-tree.h"
#include "fs-view.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A tree that is as deep as its paths may be long has a folder open at each level. */
#define FILES_MAX 8192
#define WORKSPACE "workspace"
#define CAP(c) (1ull << (c))
#define FAILED_STATUS (1 << 8) /* of wait(2): exit code 1 */

static int open_root(const char *path, struct copy_root *ret, struct err *e)
{
	ret->fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return ret->fd < 0 ? err_errno(e, errno, "%s", path) : 0;
}

/* The workspace is where a container has it, so that absolute links in it lead where they do
 * there, with the host's folders that are mounted in it. What is around it cannot be written. */
static int enter_workspace(const struct copy_spec *s, struct copy_root *ret, struct err *e)
{
	int r;

	ret->what = "sandbox";
	if ((r = fs_view_open(s->mounts, e)) < 0)
		return r;
	if (unshare(CLONE_NEWNS) < 0 ||
		mount("copy", PATH_MERGED, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64k") <
			0 ||
		mkdir(PATH_MERGED "/" WORKSPACE, 0755) < 0 ||
		mount(s->folder, PATH_MERGED "/" WORKSPACE, NULL, MS_BIND | MS_REC, NULL) < 0 ||
		mount(NULL, PATH_MERGED, NULL, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV,
			NULL) < 0)
		return err_errno(e, errno, "the workspace folder");
	if (chroot(PATH_MERGED) < 0)
		return err_errno(e, errno, "the workspace folder");
	r = fs_view_attach_below("/" WORKSPACE, e);
	return r < 0 ? r : open_root("/", ret, e);
}

/* Its root is then this process's. */
static int enter_running(struct copy_root *ret, struct err *e)
{
	ret->what = "container";
	if (setns(CONTAINER_EXTRA_FD, CLONE_NEWNS) < 0)
		return errno == ESRCH
			       ? err_set(e, ERR_WRONG_STATE, ESRCH, "the container has just ended")
			       : err_errno(e, errno, "enter the container");
	(void)fd_close(CONTAINER_EXTRA_FD);
	return open_root("/", ret, e);
}

/* Removes what the last mount left there to say that it did not sync (container-root.c). */
static int forget_volatile(const struct copy_spec *s)
{
	cleanup_fd int disk = open(s->disk_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	cleanup_fd int work = openat(disk, "work", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return work < 0 ? -errno : file_remove_tree(work, "work/incompat");
}

/* For reading, the container's layer is just another one below; nothing is written then. */
static int mount_ended(const struct copy_spec *s, struct err *e)
{
	bool writes = s->copy->kind == AGENT_COPY_IN;
	char options[512];
	int n;

	if (access(s->image_dir, F_OK) < 0)
		return err_set(e, ERR_WRONG_STATE, ENOENT,
			"the image of this ended container is not attached to the sandbox now");
	if (writes && forget_volatile(s) < 0)
		return err_errno(e, EIO, "the container's files");
	if (writes)
		n = snprintf(options, sizeof(options),
			"lowerdir=%s,upperdir=%s/upper,workdir=%s/work,volatile", s->image_dir,
			s->disk_dir, s->disk_dir);
	else
		n = snprintf(options, sizeof(options), "lowerdir=%s/upper:%s", s->disk_dir,
			s->image_dir);
	if (n < 0 || (size_t)n >= sizeof(options))
		return err_errno(e, ENAMETOOLONG, "the container's files");
	if (mount("overlay", PATH_MERGED, "overlay", writes ? 0 : MS_RDONLY, options) < 0)
		return err_errno(e, errno, "mount the container's files");
	return 0;
}

static int enter_ended(const struct copy_spec *s, struct copy_root *ret, struct err *e)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS};
	int r;

	ret->what = "container";
	if (unshare(CLONE_NEWNS) < 0)
		return err_errno(e, errno, "the container's files");
	if ((r = mount_ended(s, e)) < 0 || (r = open_root(PATH_MERGED, ret, e)) < 0)
		return r;
	/* Where the container had it; if its image's files are such that it is not there, there is
	 * none. */
	cleanup_fd int tree = (int)syscall(SYS_open_tree, AT_FDCWD, PATH_DISK "/" WORKSPACE,
		OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	cleanup_fd int at = (int)syscall(SYS_openat2, ret->fd, WORKSPACE, &how, sizeof(how));
	if (tree >= 0 && at >= 0 &&
		syscall(SYS_move_mount, tree, "", at, "",
			MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return err_errno(e, errno, "mount the workspace");
	return 0;
}

static int enter_place(const struct copy_spec *s, struct copy_root *ret, struct err *e)
{
	switch (s->place) {
	case COPY_WORKSPACE:
		return enter_workspace(s, ret, e);
	case COPY_RUNNING:
		return enter_running(ret, e);
	case COPY_ENDED:
		return enter_ended(s, ret, e);
	case COPY_UPPER:
		ret->what = "mount";
		return open_root(s->folder, ret, e);
	}
	return err_set(e, ERR_INTERNAL, EINVAL, "no such place");
}

static int find(const struct copy_spec *s, struct copy_place_at *ret, struct err *e)
{
	const struct agent_copy *c = s->copy;
	struct copy_root root = {.fd = -1};
	char path[PATH_MAX];
	int r = enter_place(s, &root, e);

	if (r < 0)
		return r;
	int n = snprintf(path, sizeof(path), "%s%s",
		s->place == COPY_WORKSPACE ? "/" WORKSPACE "/" : "",
		c->kind == AGENT_COPY_UPPER ? "" : c->path);
	if (n < 0 || (size_t)n >= sizeof(path))
		r = err_errno(e, ENAMETOOLONG, "the path");
	else if (c->kind == AGENT_COPY_IN)
		r = copy_in_find(&root, path, c->name, c->contents, ret, e);
	else
		r = copy_out_find(&root, path, ret, e);
	(void)fd_close(root.fd);
	return r;
}

/* Keeps what is needed to read and make any file; not, for example, what opens the disk's reserve
 * (ext4) or devices. SYS_ADMIN: trusted xattrs, of an upper folder. */
static int drop_privileges(bool upper)
{
	const uint64_t keep = CAP(CAP_CHOWN) | CAP(CAP_DAC_OVERRIDE) | CAP(CAP_DAC_READ_SEARCH) |
			      CAP(CAP_FOWNER) | CAP(CAP_FSETID) | (upper ? CAP(CAP_SYS_ADMIN) : 0);
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	for (int i = 0; i < 2; i++)
		data[i].effective = data[i].permitted = (uint32_t)(keep >> (32 * i));
	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static int prepare(const struct copy_spec *s, int init, struct copy_place_at *ret, struct err *e)
{
	const struct rlimit files = {.rlim_cur = FILES_MAX, .rlim_max = FILES_MAX};
	int r;

	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)prctl(PR_SET_NAME, "copy");
	(void)setpriority(PRIO_PROCESS, 0, 5);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)umask(0);
	r = container_take_descriptors(s->stdio, s->report_fd, init);
	if (r == 0)
		r = container_set_oom_score("500");
	if (r == 0 && setrlimit(RLIMIT_NOFILE, &files) < 0)
		r = -errno;
	if (r < 0)
		return err_errno(e, -r, "first step of the copy");
	if ((r = find(s, ret, e)) < 0)
		return r;
	r = drop_privileges(s->place == COPY_UPPER);
	return r < 0 ? err_errno(e, -r, "first step of the copy") : 0;
}

/* Names in it may be anything. */
static void escape(struct err *e)
{
	char text[ERR_WHAT_MAX];

	text_escape(e->what, text, sizeof(text));
	memcpy(e->what, text, sizeof(text));
}

static _Noreturn void copy_main(const struct copy_spec *s, int init)
{
	const struct container_started none = {.program = -1, .terminal = -1};
	struct copy_place_at at;
	struct err e;
	int r = prepare(s, init, &at, &e);

	if (r < 0) {
		escape(&e);
		container_report_error(CONTAINER_REPORT_FD, &e);
		_exit(1);
	}
	container_report_started(CONTAINER_REPORT_FD, &none);
	if (s->copy->kind == AGENT_COPY_IN)
		r = copy_in_receive(&at, 0, 0, STDIN_FILENO, &e);
	else
		r = copy_out_send(&at, s->copy->kind == AGENT_COPY_UPPER, STDOUT_FILENO, &e);
	if (r < 0) {
		escape(&e);
		(void)dprintf(STDERR_FILENO, "%s\n", e.what);
	}
	container_report_ended(CONTAINER_REPORT_FD, r < 0 ? FAILED_STATUS : 0);
	_exit(0);
}

pid_t copy_start(const struct copy_spec *s, struct err *e)
{
	cleanup_fd int init = -1;

	if (s->place == COPY_RUNNING) {
		init = (int)syscall(SYS_pidfd_open, s->init, 0);
		if (init < 0)
			return err_set(e, ERR_WRONG_STATE, ESRCH, "the container has just ended");
	}
	struct clone_args args = {.flags = s->cgroup_fd < 0 ? 0 : CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = s->cgroup_fd < 0 ? 0 : (uint64_t)s->cgroup_fd};
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		copy_main(s, init);
	return pid < 0 ? err_errno(e, errno, "start the copy") : pid;
}
