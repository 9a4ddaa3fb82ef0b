/* SPDX-License-Identifier: Apache-2.0 */
/* The loop: frames in, frames out, the host's changes between them. */
#include "server.h"

#include "table.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define OUT_SIZE (FRAME_HEADER_SIZE + sizeof(struct fuse_out_header) + REPLY_MAX)
#define IN_SIZE (2 * (FRAME_HEADER_SIZE + FRAME_PAYLOAD_MAX))
#define NOTICES_MAX (32u << 20)

static void freeing(void *context, struct node *node)
{
	watch_drop(context, node);
}

int fs_init(struct fs *fs, int sock, int root_fd, bool read_only, struct err *e)
{
	int r;

	*fs = (struct fs){.sock = sock, .root_fd = root_fd, .proc_fd = -1, .read_only = read_only};
	fs->watches.fd = -1;
	fs->caller = geteuid();
	buf_init(&fs->notices, NOTICES_MAX);
	handles_init(&fs->handles);
	if ((r = nodes_init(&fs->nodes, root_fd)) < 0)
		return err_errno(e, -r, "the mount's folder cannot be used");
	fs->nodes.freeing = freeing;
	fs->nodes.context = fs;
	fs->proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fs->proc_fd < 0)
		return err_errno(e, errno, "/proc/self/fd");
	fs->out = malloc(OUT_SIZE);
	if (!fs->out)
		return err_errno(e, ENOMEM, "starting");
	/* Without it the guest asks again each second. */
	(void)watches_init(&fs->watches);
	char path[32];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", root_fd);
	fs->no_xattr = getxattr(path, "user.kosa8.owner", NULL, 0) < 0 && errno == EOPNOTSUPP;
	return 0;
}

void fs_release(struct fs *fs)
{
	if (fs->nodes.by_id)
		handles_release(&fs->handles, &fs->nodes);
	nodes_release(&fs->nodes);
	watches_release(&fs->watches);
	buf_release(&fs->notices);
	fs->proc_fd = fd_close(fs->proc_fd);
	free(fs->events.all);
	free(fs->events.hash);
	free(fs->out);
	if (fs->slots)
		(void)munmap(fs->slots, FS_SLOTS * FS_SLOT_SIZE);
	fs->slots = NULL;
	fs->out = NULL;
}

int fs_map_slots(struct fs *fs, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size != FS_SLOTS * FS_SLOT_SIZE)
		return -EINVAL;
	void *at = mmap(NULL, FS_SLOTS * FS_SLOT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	fs->slots = at;
	return 0;
}

static int send_notices(struct fs *fs)
{
	int r = 0;

	/* More than fits: what was lost is made good by forgetting as much as fits. */
	if (buf_failed(&fs->notices)) {
		buf_reset(&fs->notices);
		notify_all(fs);
	}
	if (fs->notices.len > 0)
		r = fd_write_all(fs->sock, fs->notices.data, fs->notices.len);
	buf_reset(&fs->notices);
	return r;
}

static void put_le32(unsigned char *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (unsigned char)(v >> (8 * i));
}

static int send_reply(struct fs *fs, size_t len, bool in_slot)
{
	uint32_t type = in_slot && len > FS_SHORT_MAX ? FS_REPLY_SLOT : FS_REPLY;

	if (type == FS_REPLY_SLOT)
		len = sizeof(struct fuse_out_header);
	memset(fs->out, 0, FRAME_HEADER_SIZE);
	put_le32(fs->out, (uint32_t)len);
	put_le32(fs->out + 4, type | (uint32_t)FRAME_MAGIC << 16);
	return fd_write_all(fs->sock, fs->out, FRAME_HEADER_SIZE + len);
}

static int save(struct fs *fs, int fd)
{
	struct buf b;
	unsigned char result[4];

	put_le32(result, (uint32_t) - (fd < 0 ? -EBADF : table_save(fs, fd)));
	buf_init(&b, 64);
	frame_put(&b, FS_SAVED, 0, 0, result, sizeof(result));
	int r = fd_write_all(fs->sock, b.data, b.len);
	buf_release(&b);
	return r;
}

static int frame_in(struct fs *fs, const struct frame *f, int *passed)
{
	int r;

	if (f->type == FS_SAVE) {
		cleanup_fd int fd = fd_take(passed);
		return save(fs, fd);
	}
	if (f->type != FS_REQUEST || f->stream > (fs->slots ? FS_SLOTS : 0))
		return -EPROTO;
	unsigned char *slot = f->stream ? fs->slots + (size_t)(f->stream - 1) * FS_SLOT_SIZE : NULL;
	r = fs_answer(fs, f->payload, f->len, slot);
	if (r < 0)
		return r;
	/* What an operation made out of date is told after its reply: the guest may hold a lock
	 * on it until then. */
	if (r > 0)
		r = send_reply(fs, (size_t)r, slot);
	return r < 0 ? r : send_notices(fs);
}

struct input {
	unsigned char *data;
	size_t at, len;
	int passed; /* the descriptor that came last */
};

static int frames_in(struct fs *fs, struct input *in)
{
	struct frame f;
	int n;

	while ((n = frame_parse(in->data + in->at, in->len - in->at, &f)) > 0) {
		int r = frame_in(fs, &f, &in->passed);
		if (r < 0)
			return r;
		in->at += (size_t)n;
	}
	if (n < 0)
		return n;
	memmove(in->data, in->data + in->at, in->len - in->at);
	in->len -= in->at;
	in->at = 0;
	return 0;
}

static ssize_t more_in(struct fs *fs, struct input *in)
{
	int fds[FD_PASS_MAX];
	size_t n = 0;
	ssize_t len =
		fd_recv_fds(fs->sock, in->data + in->len, IN_SIZE - in->len, fds, FD_PASS_MAX, &n);

	for (size_t i = 0; i < n; i++) {
		(void)fd_close(in->passed);
		in->passed = fds[i];
	}
	if (len > 0)
		in->len += (size_t)len;
	return len;
}

static int wait_in(struct fs *fs, bool *ret_frames)
{
	int64_t now = clock_mono_ms(), quiet = fs->watches.quiet_until_ms;
	int64_t next = now < quiet ? quiet : -1;

	if (fs->events.send_ms && (next < 0 || fs->events.send_ms < next))
		next = fs->events.send_ms;
	struct pollfd p[2] = {{.fd = fs->sock, .events = POLLIN},
		{.fd = now < quiet ? -1 : fs->watches.fd, .events = POLLIN}};

	if (poll(p, 2, clock_left_ms(next)) < 0)
		return errno == EINTR ? 0 : -errno;
	*ret_frames = p[0].revents;
	if (p[1].revents)
		watch_read(fs);
	events_send(fs);
	return send_notices(fs);
}

static int loop(struct fs *fs, struct input *in)
{
	for (;;) {
		bool frames = false;
		int r = wait_in(fs, &frames);
		if (r == 0 && frames) {
			ssize_t n = more_in(fs, in);
			if (n <= 0)
				return (int)n;
			r = frames_in(fs, in);
		}
		if (r < 0)
			return r;
	}
}

int fs_serve(struct fs *fs, struct err *e)
{
	struct input in = {.data = malloc(IN_SIZE), .passed = -1};
	int r = in.data ? send_notices(fs) : -ENOMEM;

	if (r == 0)
		r = loop(fs, &in);

	free(in.data);
	(void)fd_close(in.passed);
	if (r == -EPIPE || r == -ECONNRESET)
		return 0;
	return r < 0 ? err_errno(e, -r, "serving the mount") : 0;
}
