/* SPDX-License-Identifier: Apache-2.0 */
#include "notifier.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct packet {
	int fd;
	bool cow;
	uint32_t len; /* 0: close fd */
	unsigned char data[NOTIFIER_MESSAGE_MAX];
};

static bool changes_entries(const struct packet *p)
{
	struct fuse_out_header h;

	memcpy(&h, p->data, sizeof(h));
	return h.error == FUSE_NOTIFY_INVAL_ENTRY || h.error == FUSE_NOTIFY_DELETE;
}

static void drop_dentries(void)
{
	cleanup_fd int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : fd_write_all(fd, "2", 1);

	if (r < 0)
		log_warn("drop_caches: %s", strerror(-r));
}

static void *notifier_main(void *arg)
{
	int sock = (int)(intptr_t)arg;
	int64_t next_ms = 0, due_ms = -1;

	for (;;) {
		struct pollfd p = {.fd = sock, .events = POLLIN};
		struct packet m;

		if (due_ms >= 0 && clock_left_ms(due_ms) == 0) {
			drop_dentries();
			due_ms = -1;
			next_ms = clock_mono_ms() + NOTIFIER_DROP_MS;
		}
		if (poll(&p, 1, clock_left_ms(due_ms)) <= 0)
			continue;
		ssize_t n = recv(sock, &m, sizeof(m), 0);
		if (n <= 0)
			return NULL;
		if (m.len == 0) {
			(void)fd_close(m.fd);
			continue;
		}
		/* ENOENT: the kernel does not know the node or the entry, so there is nothing to
		 * forget. */
		(void)!write(m.fd, m.data, m.len);
		if (m.cow && due_ms < 0 && changes_entries(&m))
			due_ms = clock_mono_ms() > next_ms ? clock_mono_ms() : next_ms;
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

void notifier_send(struct notifier *n, int fd, bool cow, const void *data, size_t len)
{
	struct packet m = {.fd = fd, .cow = cow, .len = (uint32_t)len};

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
