/* SPDX-License-Identifier: Apache-2.0 */
#include "tree.h"

#include <errno.h>
#include <string.h>

#define NS_PER_S 1000000000

#define NAME_LEN_MAX 255
#define MODE_MAX 07777

static bool name_is_safe(const char *name, size_t len)
{
	return len > 0 && len <= NAME_LEN_MAX && !(len == 1 && name[0] == '.') &&
	       !(len == 2 && name[0] == '.' && name[1] == '.');
}

bool tree_path_is_safe(const char *path)
{
	if (strlen(path) >= TREE_PATH_MAX)
		return false;
	if (path[0] == '\0')
		return true;
	for (;;) {
		size_t len = strcspn(path, "/");

		if (!name_is_safe(path, len))
			return false;
		if (path[len] == '\0')
			return true;
		path += len + 1;
	}
}

void tree_entry_encode(struct buf *b, const struct tree_entry *m)
{
	size_t start = b->len;

	buf_put_u32(b, 0);
	buf_put_u8(b, (uint8_t)m->type);
	buf_put_u32(b, m->mode);
	buf_put_u32(b, m->uid);
	buf_put_u32(b, m->gid);
	buf_put_u64(b, (uint64_t)m->mtime_ns);
	buf_put_u64(b, m->size);
	buf_put_str(b, m->path);
	buf_put_str(b, m->target);
	if (b->failed)
		return;
	size_t len = b->len - start - 4;
	for (unsigned i = 0; i < 4; i++)
		b->data[start + i] = (unsigned char)(len >> (8 * i));
}

/* A string without NUL that fits into ret with its own; it is the cursor that fails. */
static void get_path(struct cursor *c, char ret[static TREE_PATH_MAX])
{
	uint32_t len = cursor_u32(c);
	const unsigned char *p = cursor_bytes(c, len);

	ret[0] = '\0';
	if (!p || len >= TREE_PATH_MAX || memchr(p, '\0', len)) {
		c->failed = true;
		return;
	}
	memcpy(ret, p, len);
	ret[len] = '\0';
}

static bool entry_is_sane(const struct tree_entry *m)
{
	uint32_t mode = m->type == TREE_DIR ? m->mode & ~TREE_MODE_IMPLIED : m->mode;

	if (mode > MODE_MAX || !tree_path_is_safe(m->path))
		return false;
	if (m->type != TREE_FILE && m->size != 0)
		return false;
	switch (m->type) {
	case TREE_SYMLINK:
		return m->target[0] != '\0';
	case TREE_HARDLINK:
		return m->path[0] != '\0' && m->target[0] != '\0' && tree_path_is_safe(m->target);
	case TREE_WHITEOUT:
		return m->path[0] != '\0' && m->target[0] == '\0';
	case TREE_END:
		return m->path[0] == '\0' && m->target[0] == '\0';
	case TREE_FILE:
	case TREE_DIR:
	case TREE_SKIPPED:
	case TREE_OPAQUE:
		return m->target[0] == '\0';
	case TREE_TYPE_END:
		break;
	}
	return false;
}

int tree_entry_parse(const unsigned char *data, size_t len, struct tree_entry *ret)
{
	struct cursor c;

	if (len < 4)
		return 0;
	cursor_init(&c, data, len);
	uint32_t header = cursor_u32(&c);
	if (header > TREE_HEADER_MAX)
		return -EPROTO;
	if (header > c.left)
		return 0;
	cursor_init(&c, c.at, header);
	uint8_t type = cursor_u8(&c);
	if (type < TREE_FILE || type >= TREE_TYPE_END)
		return -EPROTO;
	ret->type = (enum tree_type)type;
	ret->mode = cursor_u32(&c);
	ret->uid = cursor_u32(&c);
	ret->gid = cursor_u32(&c);
	ret->mtime_ns = (int64_t)cursor_u64(&c);
	ret->size = cursor_u64(&c);
	get_path(&c, ret->path);
	get_path(&c, ret->target);
	if (!cursor_done(&c) || !entry_is_sane(ret))
		return -EPROTO;
	return (int)header + 4;
}

int64_t tree_time_ns(struct timespec t)
{
	int64_t ns;

	if (__builtin_mul_overflow((int64_t)t.tv_sec, (int64_t)NS_PER_S, &ns) ||
		__builtin_add_overflow(ns, (int64_t)t.tv_nsec, &ns))
		return t.tv_sec < 0 ? INT64_MIN : INT64_MAX;
	return ns;
}

struct timespec tree_timespec(int64_t ns)
{
	int64_t rest = ns % NS_PER_S, seconds = ns / NS_PER_S;

	if (rest < 0) {
		rest += NS_PER_S;
		seconds--;
	}
	return (struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)rest};
}
