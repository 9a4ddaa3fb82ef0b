/* SPDX-License-Identifier: Apache-2.0 */
#include "mount-apply.h"

#include "output.h"
#include "tree-receive.h"
#include "tree-walk.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- what is selected ---- */

/* 1: path is at or below `below`. */
static bool is_below(const char *path, const char *below)
{
	size_t len = strlen(below);

	return strncmp(path, below, len) == 0 &&
	       (len == 0 || path[len] == '\0' || path[len] == '/');
}

/* Without the mount's own path, and without "/" at the end. */
static int normal(
	const struct mount_diff *d, const char *text, char ret[static TREE_PATH_MAX], struct err *e)
{
	size_t len = strlen(text);

	if (text[0] == '/' && is_below(text, d->guest))
		text += strlen(d->guest) + (text[strlen(d->guest)] == '/');
	else if (strcmp(text, ".") == 0)
		text = "";
	len = strlen(text);
	while (len > 0 && text[len - 1] == '/')
		len--;
	if (len < TREE_PATH_MAX) {
		memcpy(ret, text, len);
		ret[len] = '\0';
	}
	if (len >= TREE_PATH_MAX || !tree_path_is_safe(ret))
		return err_set(e, ERR_INVALID, 0, "%.200s is no path of %.200s", text, d->guest);
	return 0;
}

/* The folders that are new themselves and have what was selected in them. */
static void select_parents(struct mount_diff *d, const char *path)
{
	char up[TREE_PATH_MAX];

	(void)snprintf(up, sizeof(up), "%s", path);
	while (*up) {
		up[tree_parent_len(up)] = '\0';
		struct change *c = mount_diff_find(d, up);
		if (c && c->kind != CHANGE_NONE && c->kind != CHANGE_REMOVED && c->type == TREE_DIR)
			c->selected = true;
	}
}

int mount_apply_select(struct mount_diff *d, const char *const *paths, size_t len, struct err *e)
{
	char path[TREE_PATH_MAX];

	for (size_t i = 0; len > 0 && i < d->len; i++)
		d->list[i].selected = false;
	for (size_t p = 0; p < len; p++) {
		size_t found = 0;
		int r = normal(d, paths[p], path, e);
		if (r < 0)
			return r;
		for (size_t i = 0; i < d->len; i++) {
			struct change *c = &d->list[i];
			if (c->kind == CHANGE_NONE || !is_below(c->path, path))
				continue;
			c->selected = true;
			found++;
		}
		if (found == 0)
			return err_set(e, ERR_NOT_FOUND, 0, "nothing changed at %.200s", paths[p]);
		select_parents(d, path);
	}
	for (size_t i = 0; i < d->len; i++) {
		const struct change *c = &d->list[i];
		const struct change *to =
			c->selected && c->target ? mount_diff_find(d, c->target) : NULL;
		if (to && to->kind != CHANGE_NONE && !to->selected)
			return err_set(e, ERR_INVALID, 0,
				"%.150s is another name of %.150s: name both", c->path, to->path);
	}
	return 0;
}

/* ---- in the process that writes ---- */

struct apply {
	struct mount_diff *d;
	struct tree_receive receive;
	bool taken; /* the file at work is written */
	uint64_t left_out;
};

static void leave_out(struct apply *a, const struct change *c)
{
	if (a->left_out++ < SKIPPED_SHOWN)
		output_notice(
			"%.512s has changed since it was shown, and is left as it is", c->path);
}

/* 1: the host has there what it had when it was shown, or nothing; *ret_dirfd is the folder. 0: it
 * has something else, which nobody was shown. */
static int as_shown(const struct apply *a, const struct change *c, int *ret_dirfd, struct err *e)
{
	const struct host_entry *was = &c->host;
	int dirfd = tree_walk(a->d->root, c->path, tree_parent_len(c->path));
	struct stat st;

	*ret_dirfd = dirfd;
	if (dirfd == -ENOENT || dirfd == -ENOTDIR || dirfd == -ELOOP)
		return 0;
	if (dirfd < 0)
		return err_errno(e, -dirfd, "cannot write %.150s/%.200s", a->d->host, c->path);
	if (fstatat(dirfd, tree_last_name(c->path), &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 1
				       : err_errno(e, errno, "cannot write %.150s/%.200s",
						 a->d->host, c->path);
	struct host_entry now = mount_host_entry(&st);
	if (!was->there)
		return c->type == TREE_DIR && now.is_dir;
	if (was->is_dir || now.is_dir)
		return was->is_dir && now.is_dir;
	return was->ino == now.ino && was->size == now.size &&
	       was->mtime.tv_sec == now.mtime.tv_sec && was->mtime.tv_nsec == now.mtime.tv_nsec;
}

/* 1: gone, 0: left, and told. */
static int remove_shown(struct apply *a, const struct change *c, struct err *e)
{
	int dirfd = -1, r = as_shown(a, c, &dirfd, e);
	cleanup_fd int owned = dirfd < 0 ? -1 : dirfd;

	/* Its folder has gone, and it too. */
	if (r == 0 && dirfd == -ENOENT)
		return 1;
	if (r > 0 &&
		unlinkat(owned, tree_last_name(c->path), c->host.is_dir ? AT_REMOVEDIR : 0) < 0) {
		if (errno == ENOENT)
			return 1;
		r = errno == ENOTEMPTY || errno == EEXIST || errno == EISDIR || errno == ENOTDIR
			    ? 0
			    : err_errno(
				      e, errno, "cannot remove %.150s/%.200s", a->d->host, c->path);
	}
	if (r == 0)
		leave_out(a, c);
	return r;
}

/* A folder of the host that a file or link is to replace: what was shown of it goes. */
static int make_way(void *ctx, const char *path, struct err *e)
{
	struct apply *a = ctx;
	struct change *c = mount_diff_find(a->d, path);
	size_t from = c ? (size_t)(c - a->d->list) : 0, to = from;
	int r = 0;

	if (!c)
		return 0;
	while (to + 1 < a->d->len && strncmp(a->d->list[to + 1].path, path, strlen(path)) == 0)
		to++;
	for (; r >= 0 && to > from; to--) {
		const struct change *below = &a->d->list[to];
		if (below->selected && below->kind == CHANGE_REMOVED && is_below(below->path, path))
			r = remove_shown(a, below, e);
	}
	return r < 0 ? r : remove_shown(a, c, e);
}

static int take_shown(
	struct apply *a, const struct change *c, const struct tree_entry *m, struct err *e)
{
	int dirfd, r = as_shown(a, c, &dirfd, e);

	if (dirfd >= 0)
		(void)fd_close(dirfd);
	if (r < 0)
		return r;
	if (r == 0) {
		leave_out(a, c);
		return 0;
	}
	a->taken = true;
	return tree_receive_sink.entry(&a->receive, m, e);
}

static int take_entry(void *ctx, const struct tree_entry *m, struct err *e)
{
	struct apply *a = ctx;
	struct change *c = mount_diff_find(a->d, m->path);

	a->taken = false;
	if (m->type == TREE_SKIPPED || m->type == TREE_OPAQUE || m->type == TREE_WHITEOUT)
		return 0;
	if (!*m->path) { /* the mount's own folder */
		if (m->type != TREE_DIR)
			return err_set(e, ERR_PROTOCOL, 0, "the upper folder of %.200s is none",
				a->d->guest);
		return tree_receive_sink.entry(&a->receive, m, e);
	}
	if (!c || !c->selected)
		return 0;
	c->came = true;
	if (c->kind == CHANGE_REMOVED || c->type != m->type ||
		(c->target && strcmp(c->target, m->target) != 0)) {
		leave_out(a, c);
		return 0;
	}
	return take_shown(a, c, m, e);
}

static int take_data(void *ctx, const void *data, size_t len, struct err *e)
{
	struct apply *a = ctx;

	return a->taken ? tree_receive_sink.data(&a->receive, data, len, e) : 0;
}

static int take_file_end(void *ctx, struct err *e)
{
	struct apply *a = ctx;

	return a->taken ? tree_receive_sink.file_end(&a->receive, e) : 0;
}

/* In a folder that was to go, and is there again; or that something was to replace (make_way()). */
static bool goes_with_another(const struct apply *a, const struct change *c)
{
	char up[TREE_PATH_MAX];

	(void)snprintf(up, sizeof(up), "%s", c->path);
	while (*up) {
		up[tree_parent_len(up)] = '\0';
		const struct change *in = mount_diff_find(a->d, up);
		if (in && in->selected &&
			(in->kind == CHANGE_REMOVED
					? in->came
					: in->kind == CHANGE_CHANGED && in->type != TREE_DIR))
			return true;
	}
	return false;
}

/* What goes, goes when all that comes is there; what is in a folder before the folder. */
static int take_end(void *ctx, struct err *e)
{
	struct apply *a = ctx;
	int r = tree_receive_sink.end(&a->receive, e);

	for (size_t i = a->d->len; r >= 0 && i-- > 0;) {
		const struct change *c = &a->d->list[i];
		if (!c->selected || c->came)
			continue;
		if (c->kind != CHANGE_REMOVED)
			leave_out(a, c);
		else if (!goes_with_another(a, c))
			r = remove_shown(a, c, e);
	}
	return r < 0 ? r : 0;
}

static int write_all(struct apply *a, struct connection *con, const json_t *request,
	struct copy_io *io, struct err *e)
{
	const struct tree_sink sink = {take_entry, take_data, take_file_end, take_end, a};
	int r = tree_receive_confine(&a->receive, e);

	if (r < 0)
		return r;
	io->sink = &sink;
	a->receive.skipped.progress = io->progress;
	r = copy_run(con, request, io, e);
	if (r < 0)
		return tree_receive_failed(&a->receive, e);
	if (a->left_out > 0)
		return err_set(e, ERR_CANCELLED, 0,
			"%llu of the changes were left out, as they are not what was shown any "
			"more",
			(unsigned long long)a->left_out);
	return 0;
}

/* ---- that process ---- */

struct outcome {
	int r, signal;
	struct err e;
};

static _Noreturn void run_child(
	struct apply *a, struct connection *con, const json_t *request, struct copy_io *io, int out)
{
	struct outcome o = {.r = 0};

	o.r = write_all(a, con, request, io, &o.e);
	o.signal = io->signal;
	tree_receive_close(&a->receive);
	_exit(fd_write_all(out, &o, sizeof(o)) < 0);
}

/* Until it says how it went; what ends this process ends that one first. */
static void pass_signals(pid_t pid, int in, int signal_fd)
{
	struct signalfd_siginfo info;

	for (;;) {
		struct pollfd p[] = {
			{.fd = in, .events = POLLIN}, {.fd = signal_fd, .events = POLLIN}};
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return;
		if (p[0].revents)
			return;
		if (p[1].revents && read(signal_fd, &info, sizeof(info)) == sizeof(info))
			(void)kill(pid, (int)info.ssi_signo);
	}
}

static int wait_child(pid_t pid, int in, int signal_fd, struct copy_io *io, struct err *e)
{
	struct outcome o;
	int status;

	pass_signals(pid, in, signal_fd);
	ssize_t n = fd_read_full(in, &o, sizeof(o));

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (n != sizeof(o))
		return err_set(e, ERR_INTERNAL, 0, "the process that writes the changes has died");
	io->signal = o.signal;
	if (o.r < 0)
		*e = o.e;
	return o.r;
}

static int fork_child(struct apply *a, struct connection *con, const json_t *request,
	struct copy_io *io, struct err *e)
{
	int pipefd[2];

	if (pipe2(pipefd, O_CLOEXEC) < 0)
		return err_errno(e, errno, "cannot make a pipe");
	cleanup_fd int signal_fd = copy_watch_signals(e);
	if (signal_fd < 0) {
		(void)fd_close(pipefd[0]);
		(void)fd_close(pipefd[1]);
		return err_code(e);
	}
	(void)fflush(stdout);
	pid_t parent = getpid(), pid = fork();
	if (pid == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) < 0 || getppid() != parent)
			_exit(1);
		(void)fd_close(pipefd[0]);
		run_child(a, con, request, io, pipefd[1]);
	}
	int saved = errno;
	(void)fd_close(pipefd[1]);
	cleanup_fd int in = pipefd[0];
	/* Its socket: the supervisor is to see when it ends. */
	connection_close(con);
	return pid < 0 ? err_errno(e, saved, "cannot start a process")
		       : wait_child(pid, in, signal_fd, io, e);
}

int mount_apply(const struct context *c, const struct sandbox *s, struct mount_diff *d,
	struct copy_io *io, struct err *e)
{
	cleanup_connection struct connection con = {.fd = -1};
	cleanup_json *request = copy_request(c, "upper", "", "", "", false, d->id);
	struct apply a = {.d = d};
	int root = fcntl(d->root, F_DUPFD_CLOEXEC, 3);
	int r;

	tree_receive_into(&a.receive, root, d->host);
	a.receive.replace = true;
	a.receive.make_way = make_way;
	a.receive.make_way_ctx = &a;
	if (root < 0 || !request)
		r = err_errno(e, root < 0 ? errno : ENOMEM, "cannot write to %.200s", d->host);
	else
		r = connection_open(s, &con, e);
	if (r == 0)
		r = fork_child(&a, &con, request, io, e);
	tree_receive_close(&a.receive);
	return r;
}
