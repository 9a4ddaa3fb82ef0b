/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper.h"

#include "../base/fd.h"
#include "../base/file.h"
#include "../base/log.h"
#include "container-state.h"
#include "trash.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the keeper: the channel, the folders; all else is closed. */
#define CHANNEL_FD 3
#define RUNS_FD 4
#define TRASH_FD 5
#define CONTAINERS_FD 6
#define FDS_LEN 4

static int make_upper(int dirfd)
{
	static const char *const folders[] = {"proc", "sys", "dev", "workspace", "etc"};
	static const char *const files[] = {
		"etc/hostname", "etc/hosts", "etc/resolv.conf", "etc/machine-id"};

	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
		if (mkdirat(dirfd, folders[i], 0755) < 0)
			return -errno;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (mknodat(dirfd, files[i], S_IFREG | 0644, 0) < 0)
			return -errno;
	return 0;
}

int keeper_make_folder(int dirfd, const char *name)
{
	if (mkdirat(dirfd, name, 0700) < 0)
		return -errno;
	cleanup_fd int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || mkdirat(fd, "work", 0755) < 0 || mkdirat(fd, "upper", 0755) < 0)
		return -errno;
	cleanup_fd int upper = openat(fd, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return upper < 0 ? -errno : make_upper(upper);
}

/* A full disk is no reason to stop: the next one is tried when one was removed. */
static void make_spare(uint32_t generation)
{
	static unsigned long counter;
	struct keeper_message m = {.op = KEEPER_READY};

	(void)snprintf(m.name, sizeof(m.name), "k%u-%lu", generation, ++counter);
	int r = keeper_make_folder(RUNS_FD, m.name);
	if (r == 0)
		(void)!send(CHANNEL_FD, &m, sizeof(m), MSG_NOSIGNAL);
	else
		(void)!trash_take(TRASH_FD, RUNS_FD, m.name);
}

static void remove_trash(void)
{
	int r = trash_empty(TRASH_FD);

	if (r < 0)
		log_warn("empty the trash: %s", strerror(-r));
}

static int sync_record(const char *id)
{
	cleanup_fd int dir =
		openat(CONTAINERS_FD, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_fd int file =
		dir < 0 ? -1 : openat(dir, CONTAINER_STATE_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (file < 0)
		return errno == ENOENT ? 0 : -errno; /* removed meanwhile */
	if (fsync(file) < 0)
		return -errno;
	int r = dir_sync(dir);
	return r < 0 ? r : dir_sync(CONTAINERS_FD);
}

static void obey(uint32_t generation, const struct keeper_message *m)
{
	int r = 0;

	if (m->op == KEEPER_TAKEN)
		return make_spare(generation);
	if (m->op == KEEPER_SYNC)
		r = sync_record(m->name);
	else if (m->op == KEEPER_REMOVE && !*m->name)
		r = dir_sync(CONTAINERS_FD);
	else if (m->op == KEEPER_REMOVE && *m->name)
		r = trash_take(TRASH_FD, RUNS_FD, m->name);
	if (r < 0 && r != -ENOENT)
		log_warn("keeper: %s: %s", m->name, strerror(-r));
	if (m->op == KEEPER_REMOVE)
		remove_trash();
}

/* Ends when the agent closes the channel, or kills it. */
static _Noreturn void keeper_main(uint32_t generation)
{
	struct keeper_message m;

	(void)prctl(PR_SET_NAME, "keeper");
	(void)setpriority(PRIO_PROCESS, 0, 10);
	for (int i = 0; i < KEEPER_SPARES; i++)
		make_spare(generation);
	remove_trash();
	while (recv(CHANNEL_FD, &m, sizeof(m), 0) == (ssize_t)sizeof(m)) {
		m.name[sizeof(m.name) - 1] = '\0';
		obey(generation, &m);
	}
	_exit(0);
}

/* Only what it needs: above all no stream of a run. */
static int keep_descriptors(int channel, const struct disk *d)
{
	int from[FDS_LEN] = {channel, d->runs_fd, d->trash_fd, d->containers_fd};

	for (int i = 0; i < FDS_LEN; i++) {
		from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 10);
		if (from[i] < 0)
			return -errno;
	}
	for (int i = 0; i < FDS_LEN; i++)
		if (dup2(from[i], CHANNEL_FD + i) < 0)
			return -errno;
	return close_range(CHANNEL_FD + FDS_LEN, ~0u, 0) < 0 ? -errno : 0;
}

void keeper_init(struct keeper *k, struct loop *loop)
{
	*k = (struct keeper){.loop = loop, .socket.fd = -1};
}

int keeper_start(struct keeper *k, const struct disk *d, struct err *e)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(e, errno, "channel to the keeper");
	k->generation++;
	pid_t pid = fork();
	if (pid == 0) {
		if (keep_descriptors(pair[1], d) < 0)
			_exit(1);
		keeper_main(k->generation);
	}
	(void)fd_close(pair[1]);
	int r = pid < 0 ? -errno : fd_set_nonblock(pair[0], true);
	if (r < 0) {
		(void)fd_close(pair[0]);
		return err_errno(e, -r, "start the keeper");
	}
	k->pid = pid;
	k->owed = 0;
	return loop_watch(k->loop, &k->socket, pair[0], WATCH_READ, e);
}

/* A full channel means that the keeper is far behind: it loses a message, which costs a spare, or
 * disk space until the next start. */
static void tell(struct keeper *k, enum keeper_op op, const char *name)
{
	struct keeper_message m = {.op = op};

	(void)snprintf(m.name, sizeof(m.name), "%s", name);
	if (k->socket.fd >= 0 && send(k->socket.fd, &m, sizeof(m), MSG_NOSIGNAL) < 0)
		log_warn("tell the keeper: %s", strerror(errno));
}

static void ask_for_spares(struct keeper *k)
{
	for (; k->owed > 0; k->owed--)
		tell(k, KEEPER_TAKEN, "");
}

void keeper_step(struct keeper *k)
{
	struct keeper_message m;

	while (k->socket.readable && k->spares_len < KEEPER_SPARES) {
		ssize_t n = recv(k->socket.fd, &m, sizeof(m), 0);

		if (n == (ssize_t)sizeof(m) && m.op == KEEPER_READY)
			memcpy(k->spares[k->spares_len++], m.name, sizeof(m.name));
		else if (n < 0 && errno == EINTR)
			continue;
		else
			k->socket.readable = false;
	}
	if (k->spares_len < KEEPER_SPARES / 2)
		ask_for_spares(k);
}

int keeper_take(struct keeper *k, int runs_fd, char ret[static KEEPER_NAME_SIZE], struct err *e)
{
	static unsigned long counter;

	if (k->spares_len > 0) {
		memcpy(ret, k->spares[--k->spares_len], KEEPER_NAME_SIZE);
		k->owed++;
		return 0;
	}
	(void)snprintf(ret, KEEPER_NAME_SIZE, "a%lu", ++counter);
	int r = keeper_make_folder(runs_fd, ret);
	if (r < 0) {
		tell(k, KEEPER_REMOVE, ret);
		return err_errno(e, -r, "make the run's folder");
	}
	return 0;
}

void keeper_remove(struct keeper *k, const char *name)
{
	tell(k, KEEPER_REMOVE, name);
	ask_for_spares(k);
}

void keeper_empty_trash(struct keeper *k)
{
	tell(k, KEEPER_REMOVE, "");
}

void keeper_sync(struct keeper *k, const char *id)
{
	tell(k, KEEPER_SYNC, id);
}

bool keeper_reaped(struct keeper *k, pid_t pid)
{
	if (pid != k->pid || pid == 0)
		return false;
	loop_unwatch(k->loop, &k->socket);
	k->pid = 0;
	return true;
}

void keeper_kill(struct keeper *k)
{
	if (k->pid > 0 && kill(k->pid, SIGKILL) == 0)
		(void)waitpid(k->pid, NULL, 0);
	loop_unwatch(k->loop, &k->socket);
	k->pid = 0;
}
