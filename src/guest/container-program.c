/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last stage: from init's privileges to the program's own. Order matters: everything that needs
 * privileges (folder, limits, groups) is done before the user id is given up, and the program is
 * looked for as the user, so what the user may not execute is not found by somebody else's rights.
 *
 * Capabilities are docker's default set: for root by the bounding set at exec (capabilities(7),
 * "Transformation of capabilities during execve()"), for other users none, while setuid programs
 * get the set. no_new_privs stays off, as in docker.
 */
#include "container.h"

#include "../base/strv.h"
#include "terminal.h"
#include "user.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define CAP(c) (1ull << (c))

static const uint64_t kept_capabilities =
	CAP(CAP_CHOWN) | CAP(CAP_DAC_OVERRIDE) | CAP(CAP_FSETID) | CAP(CAP_FOWNER) |
	CAP(CAP_MKNOD) | CAP(CAP_NET_RAW) | CAP(CAP_SETGID) | CAP(CAP_SETUID) | CAP(CAP_SETFCAP) |
	CAP(CAP_SETPCAP) | CAP(CAP_NET_BIND_SERVICE) | CAP(CAP_SYS_CHROOT) | CAP(CAP_KILL) |
	CAP(CAP_AUDIT_WRITE);

struct program {
	struct user user;
	const char *path; /* the search path */
	char *const *argv;
	char **env;
};

/* mkdir -p below the container's root, as docker does for a missing working directory. */
static int make_folders(const char *path)
{
	char at[PATH_MAX];
	size_t len = strlen(path);

	if (len >= sizeof(at))
		return -ENAMETOOLONG;
	memcpy(at, path, len + 1);
	for (char *slash = strchr(at + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(at, 0755) < 0 && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return mkdir(at, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

static int enter_folder(const char *cwd, struct err *e)
{
	if (*cwd == '\0')
		cwd = "/";
	if (*cwd != '/')
		return err_set(e, ERR_INVALID, EINVAL,
			"the working directory \"%.100s\" is not an absolute path", cwd);
	if (chdir(cwd) == 0)
		return 0;
	int r = errno == ENOENT ? make_folders(cwd) : -errno;
	if (r == 0 && chdir(cwd) < 0)
		r = -errno;
	return r < 0 ? err_errno(e, -r, "the working directory %.100s", cwd) : 0;
}

static int set_limits(struct err *e)
{
	static const struct {
		__rlimit_resource_t what;
		struct rlimit value;
	} limits[] = {
		{RLIMIT_NOFILE, {1024, 1048576}},
		{RLIMIT_CORE, {0, RLIM_INFINITY}},
	};
	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
		if (setrlimit(limits[i].what, &limits[i].value) < 0)
			return err_errno(e, errno, "limits");
	return 0;
}

/* A copy, with what every program is to find in it. */
static int make_env(const struct program_spec *s, struct program *p, struct err *e)
{
	int r = 0;

	p->env = strv_new();
	if (!p->env)
		r = -ENOMEM;
	for (char *const *at = s->env; r == 0 && *at; at++)
		r = strv_add(&p->env, *at);
	if (r == 0 && !strv_env_get(s->env, "HOME"))
		r = strv_addf(&p->env, "HOME=%s", p->user.home);
	if (r == 0 && s->terminal && !strv_env_get(s->env, "TERM"))
		r = strv_add(&p->env, "TERM=xterm");
	return r < 0 ? err_errno(e, -r, "environment") : 0;
}

struct program *program_prepare(const struct program_spec *s, struct err *e)
{
	static struct program p;

	p.argv = s->argv;
	p.path = strv_env_get(s->env, "PATH");
	if (!p.path)
		p.path = DEFAULT_PATH;
	if (user_lookup(s->user, &p.user, e) < 0)
		return NULL;
	fs_view_tell_owner(p.user.uid, p.user.gid);
	if (enter_folder(s->cwd, e) < 0 || set_limits(e) < 0 || make_env(s, &p, e) < 0)
		return NULL;
	return &p;
}

uid_t program_uid(const struct program *p)
{
	return p->user.uid;
}

static int drop_privileges(const struct user *u)
{
	for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
		if (!(kept_capabilities & CAP(cap)) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 &&
			errno != EINVAL)
			return -errno;
	/* Keys of one container are not another's. */
	(void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
	/* Plain system calls: the C library would look for threads of the process whose memory
	 * this is. */
	if (syscall(SYS_setgroups, u->groups_len, u->groups) < 0 ||
		syscall(SYS_setresgid, u->gid, u->gid, u->gid) < 0 ||
		syscall(SYS_setresuid, u->uid, u->uid, u->uid) < 0)
		return -errno;
	return 0;
}

static void say(struct agent_reply *ret, enum agent_fail fail, int errnum, const char *fmt, ...)
	format_printf(4, 5);
static void say(struct agent_reply *ret, enum agent_fail fail, int errnum, const char *fmt, ...)
{
	va_list ap;

	ret->status = (uint32_t)errnum;
	ret->fail = fail;
	va_start(ap, fmt);
	(void)vsnprintf(ret->text, sizeof(ret->text), fmt, ap);
	va_end(ap);
}

/* Why execve() of this path failed, in the words of somebody who looks at the image. */
static void explain(struct agent_reply *ret, const char *path, int errnum)
{
	struct stat st;
	bool there = stat(path, &st) == 0;

	if (there && S_ISDIR(st.st_mode))
		say(ret, AGENT_FAIL_NOT_EXEC, EISDIR, "%.150s is a folder", path);
	else if (errnum == ENOEXEC)
		say(ret, AGENT_FAIL_NOT_EXEC, errnum,
			"%.150s is neither a program for this machine nor a script with a #! line",
			path);
	else if (there && errnum == ENOENT)
		say(ret, AGENT_FAIL_NOT_EXEC, errnum,
			"%.150s needs an interpreter or loader that the image does not have", path);
	else if (errnum == ENOENT || errnum == ENOTDIR)
		say(ret, AGENT_FAIL_NOT_FOUND, errnum, "%.150s is not in the image", path);
	else
		say(ret, AGENT_FAIL_NOT_EXEC, errnum, "%.150s: %s", path, strerror(errnum));
}

static bool is_absence(int errnum)
{
	return errnum == ENOENT || errnum == ENOTDIR || errnum == EACCES || errnum == ENAMETOOLONG;
}

/* As a shell does: the first in the path that can be executed; what was found but may not be is
 * remembered. */
static void exec_in_path(const struct program *p, struct agent_reply *ret)
{
	const char *name = p->argv[0];
	char path[PATH_MAX], found[PATH_MAX] = "";
	int found_error = ENOENT;

	for (const char *at = p->path;; at++) {
		size_t len = strcspn(at, ":");
		struct stat st;
		int n = snprintf(path, sizeof(path), "%.*s/%s", (int)len, len ? at : ".", name);

		if (len == 0)
			n = snprintf(path, sizeof(path), "./%s", name);
		if (n > 0 && (size_t)n < sizeof(path)) {
			(void)execve(path, p->argv, p->env);
			int errnum = errno;
			if (!is_absence(errnum))
				return explain(ret, path, errnum);
			if (!*found && stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
				memcpy(found, path, (size_t)n + 1);
				found_error = errnum;
			}
		}
		at += len;
		if (*at == '\0')
			break;
	}
	if (*found)
		return explain(ret, found, found_error);
	say(ret, AGENT_FAIL_NOT_FOUND, ENOENT, "\"%.100s\" is not in the image's PATH (%.120s)",
		name, p->path);
}

/* What needs init's privileges. */
static int become_program(const struct program *p, int terminal, const char **ret_step)
{
	int r;

	/* Set while it has the right to: then it is also the lowest that it can choose itself. */
	*ret_step = "oom_score_adj of the program";
	if ((r = container_set_oom_score("0")) < 0)
		return r;
	*ret_step = "terminal";
	if (terminal >= 0 && (r = terminal_take(terminal)) < 0)
		return r;
	*ret_step = "change to the user";
	return drop_privileges(&p->user);
}

void program_exec(struct program *p, int terminal, struct agent_reply *ret)
{
	const char *name = p->argv[0], *step;
	sigset_t none;

	(void)setsid();
	(void)umask(022);
	(void)signal(SIGPIPE, SIG_DFL);
	int r = become_program(p, terminal, &step);
	if (r < 0)
		return say(ret, AGENT_FAIL_SETUP, -r, "%s: %s", step, strerror(-r));
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (*name == '\0')
		return say(ret, AGENT_FAIL_NOT_FOUND, ENOENT, "the command is an empty word");
	if (!strchr(name, '/'))
		return exec_in_path(p, ret);
	(void)execve(name, p->argv, p->env);
	explain(ret, name, errno);
}
