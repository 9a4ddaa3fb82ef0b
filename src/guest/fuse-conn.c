/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse-conn.h"

#include "../base/fd.h"
#include "../base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

int fuse_conn_open(struct fuse_conn *c, uint32_t id, bool cow, const char *path, struct err *e)
{
	char options[160];
	cleanup_fd int fd = open("/dev/fuse", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return err_errno(e, errno, "/dev/fuse");
	(void)snprintf(options, sizeof(options),
		"fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,max_read=%u", fd,
		FS_DATA_MAX);
	if (mount("kosa8", path, "fuse", MS_NOSUID | MS_NODEV | MS_NOATIME, options) < 0)
		return err_errno(e, errno, "mount");
	*c = (struct fuse_conn){.id = id, .cow = cow, .fd = fd_take(&fd), .readable = true};
	return 0;
}

void fuse_conn_close(struct fuse_conn *c)
{
	(void)fd_close(c->fd);
	*c = (struct fuse_conn){.fd = -1};
}

static bool has_reply(uint32_t opcode)
{
	return opcode != FUSE_FORGET && opcode != FUSE_BATCH_FORGET && opcode != FUSE_NOTIFY_REPLY;
}

/* The request's length when it is to be passed on, else 0. */
static ssize_t take_request(struct fuse_conn *c, const unsigned char *data, size_t len)
{
	struct fuse_in_header h;

	if (len < sizeof(h))
		return 0;
	memcpy(&h, data, sizeof(h));
	if (h.opcode == FUSE_INTERRUPT)
		return 0;
	if (h.opcode == FUSE_INIT && len <= sizeof(c->init)) {
		memcpy(c->init, data, len);
		c->init_len = len;
	}
	if (has_reply(h.opcode))
		c->out[c->out_len++] = h.unique;
	return (ssize_t)len;
}

ssize_t fuse_conn_next(struct fuse_conn *c, void *ret)
{
	while (c->readable && c->out_len < FS_REQUESTS_MAX) {
		ssize_t n = read(c->fd, ret, FUSE_CONN_READ_SIZE);

		if (n > 0) {
			n = take_request(c, ret, (size_t)n);
			if (n > 0)
				return n;
			continue;
		}
		/* ENOENT: it was interrupted before it could be read. */
		if (n < 0 && (errno == EINTR || errno == ENOENT))
			continue;
		c->readable = false;
		if (n < 0 && errno == ENODEV)
			return -ENODEV;
	}
	return 0;
}

static bool take_out(struct fuse_conn *c, uint64_t unique)
{
	for (size_t i = 0; i < c->out_len; i++) {
		if (c->out[i] != unique)
			continue;
		c->out[i] = c->out[--c->out_len];
		return true;
	}
	return false;
}

/* ENOENT is usual: the program was killed meanwhile. */
static void answer(struct fuse_conn *c, const void *data, size_t len)
{
	if (write(c->fd, data, len) < 0 && errno != ENOENT && errno != ENODEV) {
		struct fuse_out_header h;

		log_warn("mount %u: the kernel refused an answer: %s", c->id, strerror(errno));
		memcpy(&h, data, sizeof(h));
		h.len = sizeof(h);
		h.error = -EIO;
		(void)!write(c->fd, &h, sizeof(h));
	}
}

static bool init_accepted(const struct fuse_out_header *h, const unsigned char *data, size_t len)
{
	struct fuse_init_out init = {0};

	if (h->error != 0 || len < sizeof(*h) + FUSE_COMPAT_INIT_OUT_SIZE)
		return false;
	memcpy(&init, data + sizeof(*h), FUSE_COMPAT_INIT_OUT_SIZE);
	return init.major == FUSE_KERNEL_VERSION;
}

enum fuse_conn_reply fuse_conn_reply(struct fuse_conn *c, const void *data, size_t len)
{
	struct fuse_out_header h;
	struct fuse_in_header init;

	if (len < sizeof(h))
		return FUSE_REPLY_DROPPED;
	memcpy(&h, data, sizeof(h));
	if (h.len != len)
		return FUSE_REPLY_DROPPED;
	if (h.unique == 0)
		return FUSE_REPLY_NOTIFICATION;
	if (!take_out(c, h.unique))
		return FUSE_REPLY_DROPPED;
	answer(c, data, len);
	if (c->ready || c->init_len < sizeof(init))
		return FUSE_REPLY_DONE;
	memcpy(&init, c->init, sizeof(init));
	if (init.unique != h.unique)
		return FUSE_REPLY_DONE;
	c->ready = init_accepted(&h, data, len);
	c->init_len = 0;
	return c->ready ? FUSE_REPLY_READY : FUSE_REPLY_REFUSED;
}

bool fuse_conn_fail(struct fuse_conn *c)
{
	struct fuse_in_header init = {0};
	bool again = false;

	if (!c->ready && c->init_len >= sizeof(init))
		memcpy(&init, c->init, sizeof(init));
	for (size_t i = 0; i < c->out_len; i++) {
		struct fuse_out_header h = {.len = sizeof(h), .error = -EIO, .unique = c->out[i]};

		if (h.unique == init.unique)
			again = true;
		else
			(void)!write(c->fd, &h, sizeof(h));
	}
	c->out_len = 0;
	if (again)
		c->out[c->out_len++] = init.unique;
	return again;
}
