/* SPDX-License-Identifier: Apache-2.0 */
#include "notifier.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/log.h"
#include "fs-calls.h"
#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

struct packet {
	int fd;
	uint32_t overlay; /* the id of a mount with an overlay on it; else 0 */
	uint32_t len;	  /* 0: close fd */
	unsigned char data[NOTIFIER_MESSAGE_MAX];
};

static int32_t kind_of(const struct packet *p)
{
	struct fuse_out_header h;

	memcpy(&h, p->data, sizeof(h));
	return h.error;
}

static void drop_dentries(uint32_t id)
{
	char path[RELAY_PATH_SIZE];

	relay_path(id, "cow", path);
	/* EINVAL: it is not there yet, or not any more. */
	if (mount(NULL, path, NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV | MS_NOATIME, NULL) < 0 &&
		errno != EINVAL && errno != ENOENT)
		log_warn("mount %u: forget what is cached: %s", id, strerror(errno));
}

/* The overlays that have to forget, each once. */
struct due {
	int64_t at_ms; /* -1: none has to */
	size_t len;
	uint32_t id[RELAY_MOUNTS_MAX];
};

static void note_due(struct due *d, uint32_t id, int64_t not_before_ms)
{
	int64_t now = clock_mono_ms();

	if (d->at_ms < 0)
		d->at_ms = now > not_before_ms ? now : not_before_ms;
	for (size_t i = 0; i < d->len; i++)
		if (d->id[i] == id)
			return;
	if (d->len < RELAY_MOUNTS_MAX)
		d->id[d->len++] = id;
}

static void *notifier_main(void *arg)
{
	int sock = (int)(intptr_t)arg;
	struct due due = {.at_ms = -1};
	int64_t not_before_ms = 0;

	for (;;) {
		struct pollfd p = {.fd = sock, .events = POLLIN};
		struct packet m;

		if (due.at_ms >= 0 && clock_left_ms(due.at_ms) == 0) {
			for (size_t i = 0; i < due.len; i++)
				drop_dentries(due.id[i]);
			due = (struct due){.at_ms = -1};
			not_before_ms = clock_mono_ms() + NOTIFIER_DROP_MS;
		}
		if (poll(&p, 1, clock_left_ms(due.at_ms)) <= 0)
			continue;
		ssize_t n = recv(sock, &m, sizeof(m), 0);
		if (n <= 0)
			return NULL;
		if (m.len == 0) {
			(void)fd_close(m.fd);
			continue;
		}
		int32_t kind = kind_of(&m);
		if (kind == FS_EVENT) {
			fs_calls_event(m.fd, m.data, m.len);
			continue;
		}
		/* ENOENT: the kernel does not know the node or the entry, so there is nothing to
		 * forget. */
		(void)!write(m.fd, m.data, m.len);
		if (m.overlay && (kind == FUSE_NOTIFY_INVAL_ENTRY || kind == FUSE_NOTIFY_DELETE))
			note_due(&due, m.overlay, not_before_ms);
	}
}

int notifier_start(struct notifier *n, struct err *e)
{
	int pair[2];
	pthread_t thread;

	n->sock = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(e, errno, "channel to the notifier");
	int r = pthread_create(&thread, NULL, notifier_main, (void *)(intptr_t)pair[1]);
	if (r != 0) {
		(void)fd_close(pair[0]);
		(void)fd_close(pair[1]);
		return err_errno(e, r, "start the notifier");
	}
	(void)pthread_detach(thread);
	n->sock = pair[0];
	return 0;
}

int notifier_add(const struct fuse_conn *c)
{
	int fd = fcntl(c->fd, F_DUPFD_CLOEXEC, 3);

	return fd < 0 ? -errno : fd;
}

static void put(struct notifier *n, const struct packet *m, int flags)
{
	size_t size = offsetof(struct packet, data) + m->len;

	if (send(n->sock, m, size, MSG_NOSIGNAL | flags) < 0)
		log_warn("a notification of a mount was lost: %s", strerror(errno));
}

void notifier_send(
	struct notifier *n, const struct fuse_conn *c, int fd, const void *data, size_t len)
{
	struct packet m = {.fd = fd, .overlay = c->cow ? c->id : 0, .len = (uint32_t)len};

	if (len < sizeof(struct fuse_out_header) || len > sizeof(m.data))
		return;
	memcpy(m.data, data, len);
	put(n, &m, MSG_DONTWAIT);
}

void notifier_forget(struct notifier *n, int fd)
{
	struct packet m = {.fd = fd};

	put(n, &m, 0);
}
