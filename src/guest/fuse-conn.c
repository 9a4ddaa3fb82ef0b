/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse-conn.h"

#include "../base/cursor.h"
#include "../base/fd.h"
#include "../base/log.h"
#include "mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/uio.h>
#include <unistd.h>

/* Two slots are on their way while the program takes the one before. */
#define READ_AHEAD_KB (2 * FS_SLOT_SIZE / 1024)

int fuse_conn_open(struct fuse_conn *c, uint32_t id, bool cow, const char *path,
	struct fuse_slots *slots, struct err *e)
{
	char options[160];
	cleanup_fd int fd = open("/dev/fuse", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return err_errno(e, errno, "/dev/fuse");
	(void)snprintf(options, sizeof(options),
		"fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,max_read=%u", fd,
		FS_SLOT_SIZE);
	if (mount("kosa8", path, "fuse", MS_NOSUID | MS_NODEV | MS_NOATIME, options) < 0)
		return err_errno(e, errno, "mount");
	*c = (struct fuse_conn){
		.id = id, .cow = cow, .fd = fd_take(&fd), .readable = true, .slots = slots};
	return 0;
}

void fuse_conn_read_ahead(const char *path)
{
	char device[MOUNTINFO_DEVICE_SIZE], setting[80], value[16];
	int r = mountinfo_device(path, device);

	if (r == 0) {
		(void)snprintf(setting, sizeof(setting), "/sys/class/bdi/%s/read_ahead_kb", device);
		(void)snprintf(value, sizeof(value), "%u", READ_AHEAD_KB);
		cleanup_fd int fd = open(setting, O_WRONLY | O_CLOEXEC);
		r = fd < 0 ? -errno : fd_write_all(fd, value, strlen(value));
	}
	if (r < 0)
		log_warn("%s: reading ahead: %s", path, strerror(-r));
}

void fuse_conn_close(struct fuse_conn *c)
{
	(void)fd_close(c->fd);
	free(c->own);
	*c = (struct fuse_conn){.fd = -1};
}

static bool has_reply(uint32_t opcode)
{
	return opcode != FUSE_FORGET && opcode != FUSE_BATCH_FORGET && opcode != FUSE_NOTIFY_REPLY;
}

static struct fuse_out *find_out(struct fuse_conn *c, uint64_t unique)
{
	for (size_t i = 0; i < c->out_len; i++)
		if (c->out[i].unique == unique)
			return &c->out[i];
	return NULL;
}

static bool own_is_taken(const struct fuse_conn *c)
{
	for (size_t i = 0; i < c->out_len; i++)
		if (c->out[i].slot == FUSE_OWN_SLOT)
			return true;
	return false;
}

static int take_slot(struct fuse_conn *c, uint64_t unique, bool must)
{
	int slot = fuse_slots_take(c->slots, c->id, unique);

	if (slot != FUSE_NO_SLOT || !must || own_is_taken(c) || fuse_slots_holds(c->slots, c->id))
		return slot;
	if (!c->own)
		c->own = malloc(FS_SLOT_SIZE);
	return c->own ? FUSE_OWN_SLOT : FUSE_NO_SLOT;
}

/* How long the answer may be, if that can be said; headers not counted. */
static uint32_t answer_size(uint32_t opcode, const unsigned char *data, size_t len)
{
	struct fuse_read_in in;

	if ((opcode != FUSE_READ && opcode != FUSE_READDIR && opcode != FUSE_READDIRPLUS) ||
		len < sizeof(struct fuse_in_header) + sizeof(in))
		return 0;
	memcpy(&in, data + sizeof(struct fuse_in_header), sizeof(in));
	return in.size;
}

static bool park(struct fuse_conn *c, const unsigned char *data, size_t len)
{
	struct fuse_parked *p = &c->parked[c->parked_len];

	if (len > sizeof(p->data))
		return false;
	p->len = len;
	memcpy(p->data, data, len);
	c->parked_len++;
	return true;
}

/* The request's length when it is to be passed on, else 0. */
static ssize_t take_request(
	struct fuse_conn *c, const unsigned char *data, size_t len, int *ret_slot)
{
	struct fuse_in_header h;

	*ret_slot = FUSE_NO_SLOT;
	if (len < sizeof(h))
		return 0;
	memcpy(&h, data, sizeof(h));
	if (h.opcode == FUSE_INTERRUPT)
		return 0;
	if (h.opcode == FUSE_INIT && len <= sizeof(c->init)) {
		memcpy(c->init, data, len);
		c->init_len = len;
	}
	if (!has_reply(h.opcode))
		return (ssize_t)len;
	uint32_t size = answer_size(h.opcode, data, len);
	if (size > FS_SHORT_MAX)
		*ret_slot = take_slot(c, h.unique, size > FS_DATA_MAX);
	c->out[c->out_len++] = (struct fuse_out){h.unique, *ret_slot};
	if (size > FS_DATA_MAX && *ret_slot == FUSE_NO_SLOT && park(c, data, len))
		return 0;
	return (ssize_t)len;
}

ssize_t fuse_conn_unpark(struct fuse_conn *c, void *ret, int *ret_slot)
{
	struct fuse_in_header h;

	if (c->parked_len == 0)
		return 0;
	memcpy(&h, c->parked[0].data, sizeof(h));
	*ret_slot = take_slot(c, h.unique, true);
	struct fuse_out *out = find_out(c, h.unique);
	if (*ret_slot == FUSE_NO_SLOT || !out)
		return 0;
	out->slot = *ret_slot;
	size_t len = c->parked[0].len;
	memcpy(ret, c->parked[0].data, len);
	memmove(c->parked, c->parked + 1, --c->parked_len * sizeof(c->parked[0]));
	return (ssize_t)len;
}

ssize_t fuse_conn_next(struct fuse_conn *c, void *ret, int *ret_slot)
{
	ssize_t n = fuse_conn_unpark(c, ret, ret_slot);

	if (n > 0)
		return n;
	while (c->readable && c->out_len < FS_REQUESTS_MAX) {
		n = read(c->fd, ret, FUSE_CONN_READ_SIZE);
		if (n > 0) {
			n = take_request(c, ret, (size_t)n, ret_slot);
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

/* ENOENT is usual: the program was killed meanwhile. */
static void answer(struct fuse_conn *c, const void *data, size_t len, const void *more)
{
	struct fuse_out_header h;

	memcpy(&h, data, sizeof(h));
	struct iovec v[2] = {
		{(void *)(uintptr_t)data, len}, {(void *)(uintptr_t)more, h.len - len}};
	if (writev(c->fd, v, v[1].iov_len > 0 ? 2 : 1) < 0 && errno != ENOENT && errno != ENODEV) {
		log_warn("mount %u: the kernel refused an answer: %s", c->id, strerror(errno));
		h.len = sizeof(h);
		h.error = -EIO;
		(void)!write(c->fd, &h, sizeof(h));
	}
}

static void forget_out(struct fuse_conn *c, struct fuse_out *out, size_t dirty)
{
	if (out->slot != FUSE_NO_SLOT && out->slot != FUSE_OWN_SLOT)
		fuse_slots_answered(c->slots, c->id, out->unique, dirty);
	*out = c->out[--c->out_len];
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
	struct fuse_out *out = find_out(c, h.unique);
	if (!out)
		return FUSE_REPLY_DROPPED;
	forget_out(c, out, 0);
	answer(c, data, len, NULL);
	if (c->ready || c->init_len < sizeof(init))
		return FUSE_REPLY_DONE;
	memcpy(&init, c->init, sizeof(init));
	if (init.unique != h.unique)
		return FUSE_REPLY_DONE;
	c->ready = init_accepted(&h, data, len);
	c->init_len = 0;
	return c->ready ? FUSE_REPLY_READY : FUSE_REPLY_REFUSED;
}

static unsigned char *slot_at(const struct fuse_conn *c, const struct fuse_out *out)
{
	return out->slot == FUSE_OWN_SLOT ? c->own : fuse_slots_at(c->slots, out->slot);
}

enum fuse_conn_reply fuse_conn_reply_slot(struct fuse_conn *c, const void *data, size_t len)
{
	struct fuse_out_header h;

	if (len != sizeof(h))
		return FUSE_REPLY_DROPPED;
	memcpy(&h, data, sizeof(h));
	struct fuse_out *out = find_out(c, h.unique);
	if (!out || out->slot == FUSE_NO_SLOT || h.len < sizeof(h) ||
		h.len - sizeof(h) > FS_SLOT_SIZE)
		return FUSE_REPLY_DROPPED;
	answer(c, data, len, slot_at(c, out));
	forget_out(c, out, h.len - sizeof(h));
	return FUSE_REPLY_DONE;
}

void fuse_conn_part(struct fuse_conn *c, const void *data, size_t len)
{
	struct cursor in;

	cursor_init(&in, data, len);
	uint64_t unique = cursor_u64(&in);
	uint32_t offset = cursor_u32(&in);
	const size_t head = sizeof(unique) + sizeof(offset);
	struct fuse_out *out = len > head ? find_out(c, unique) : NULL;
	if (!out || out->slot == FUSE_NO_SLOT || offset > FS_SLOT_SIZE ||
		len - head > FS_SLOT_SIZE - offset)
		return;
	memcpy(slot_at(c, out) + offset, (const unsigned char *)data + head, len - head);
}

bool fuse_conn_fail(struct fuse_conn *c)
{
	struct fuse_in_header init = {0};
	bool again = false;

	if (!c->ready && c->init_len >= sizeof(init))
		memcpy(&init, c->init, sizeof(init));
	for (size_t i = 0; i < c->out_len; i++) {
		struct fuse_out_header h = {
			.len = sizeof(h), .error = -EIO, .unique = c->out[i].unique};

		if (h.unique == init.unique)
			again = true;
		else
			(void)!write(c->fd, &h, sizeof(h));
	}
	c->out_len = c->parked_len = 0;
	if (again)
		c->out[c->out_len++] = (struct fuse_out){init.unique, FUSE_NO_SLOT};
	return again;
}
