/* SPDX-License-Identifier: Apache-2.0 */
/* A scripted kernel for kosa8-fs: sends raw FUSE messages and keeps the reply. */
#ifndef KOSA8_TESTS_FS_KERNEL_H
#define KOSA8_TESTS_FS_KERNEL_H

#include "base/frame.h"
#include "fs/server.h"
#include "proto/fs.h"

#include <stdlib.h>
#include <string.h>

struct kernel {
	struct fs *fs;
	uint32_t uid, gid, pid;
	size_t len; /* of the last reply's payload */
	const unsigned char *reply;
};

/* The reply's error: 0 or a negative errno; 1 when there was no reply. */
static inline int ask2(struct kernel *k, uint32_t op, uint64_t node, const void *a, size_t a_len,
	const void *b, size_t b_len)
{
	size_t len = sizeof(struct fuse_in_header) + a_len + b_len;
	unsigned char *m = malloc(len);
	struct fuse_in_header h = {.opcode = op,
		.unique = 7,
		.nodeid = node,
		.uid = k->uid,
		.gid = k->gid,
		.pid = k->pid,
		.len = (uint32_t)len};
	struct fuse_out_header out;

	if (!m)
		abort();
	memcpy(m, &h, sizeof(h));
	if (a_len)
		memcpy(m + sizeof(h), a, a_len);
	if (b_len)
		memcpy(m + sizeof(h) + a_len, b, b_len);
	int r = fs_answer(k->fs, m, len, NULL);
	free(m);
	if (r <= 0)
		return r < 0 ? r : 1;
	memcpy(&out, k->fs->out + FRAME_HEADER_SIZE, sizeof(out));
	k->reply = k->fs->out + FRAME_HEADER_SIZE + sizeof(out);
	k->len = (size_t)r - sizeof(out);
	return out.error;
}

static inline int ask(struct kernel *k, uint32_t op, uint64_t node, const void *a, size_t a_len)
{
	return ask2(k, op, node, a, a_len, NULL, 0);
}

static inline int ask_name(
	struct kernel *k, uint32_t op, uint64_t node, const void *a, size_t a_len, const char *name)
{
	return ask2(k, op, node, a, a_len, name, strlen(name) + 1);
}

static inline int hello(struct kernel *k)
{
	struct fuse_init_in in = {.major = 7, .minor = 36, .flags = ~0u};

	return ask(k, FUSE_INIT, 0, &in, sizeof(in));
}

/* The node, or a negative errno; 0: it is not there. */
static inline int64_t lookup(struct kernel *k, uint64_t node, const char *name)
{
	struct fuse_entry_out out;
	int r = ask_name(k, FUSE_LOOKUP, node, NULL, 0, name);

	if (r < 0)
		return r;
	memcpy(&out, k->reply, sizeof(out));
	return (int64_t)out.nodeid;
}

static inline struct fuse_entry_out entry(const struct kernel *k)
{
	struct fuse_entry_out out;

	memcpy(&out, k->reply, sizeof(out));
	return out;
}

static inline int getattr(struct kernel *k, uint64_t node, struct fuse_attr *ret)
{
	struct fuse_getattr_in in = {0};
	struct fuse_attr_out out;
	int r = ask(k, FUSE_GETATTR, node, &in, sizeof(in));

	if (r == 0) {
		memcpy(&out, k->reply, sizeof(out));
		*ret = out.attr;
	}
	return r;
}

static inline int64_t open_file(struct kernel *k, uint32_t op, uint64_t node, uint32_t flags)
{
	struct fuse_open_in in = {.flags = flags};
	struct fuse_open_out out;
	int r = ask(k, op, node, &in, sizeof(in));

	if (r < 0)
		return r;
	memcpy(&out, k->reply, sizeof(out));
	return (int64_t)out.fh;
}

/* The handle; the node's number in *ret. */
static inline int64_t create(struct kernel *k, uint64_t node, const char *name, uint32_t flags,
	uint32_t mode, uint64_t *ret)
{
	struct fuse_create_in in = {.flags = flags, .mode = mode};
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} out;
	int r = ask_name(k, FUSE_CREATE, node, &in, sizeof(in), name);

	if (r < 0)
		return r;
	memcpy(&out, k->reply, sizeof(out));
	*ret = out.entry.nodeid;
	return (int64_t)out.open.fh;
}

static inline int write_at(
	struct kernel *k, uint64_t node, int64_t fh, uint64_t at, uint32_t flags, const char *text)
{
	struct fuse_write_in in = {
		.fh = (uint64_t)fh, .offset = at, .size = (uint32_t)strlen(text), .flags = flags};

	return ask2(k, FUSE_WRITE, node, &in, sizeof(in), text, strlen(text));
}

static inline int read_at(struct kernel *k, uint64_t node, int64_t fh, uint64_t at, uint32_t size)
{
	struct fuse_read_in in = {.fh = (uint64_t)fh, .offset = at, .size = size};

	return ask(k, FUSE_READ, node, &in, sizeof(in));
}

static inline bool read_is(const struct kernel *k, const char *text)
{
	return k->len == strlen(text) && memcmp(k->reply, text, k->len) == 0;
}

static inline int release(struct kernel *k, uint32_t op, uint64_t node, int64_t fh)
{
	struct fuse_release_in in = {.fh = (uint64_t)fh};

	return ask(k, op, node, &in, sizeof(in));
}

/* How many notices of this code wait; and forgets all that wait. */
static inline int notices(struct kernel *k, int code)
{
	struct fuse_out_header h;
	struct frame f;
	size_t at = 0;
	int n, found = 0;

	while ((n = frame_parse(k->fs->notices.data + at, k->fs->notices.len - at, &f)) > 0) {
		memcpy(&h, f.payload, sizeof(h));
		found += code == 0 || h.error == code;
		at += (size_t)n;
	}
	buf_reset(&k->fs->notices);
	return found;
}

#endif
