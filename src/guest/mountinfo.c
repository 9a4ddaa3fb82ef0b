/* SPDX-License-Identifier: Apache-2.0 */
#include "mountinfo.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* The next word of the line; *at moves behind it and the space. */
static size_t word(const char **at, const char *end, const char **ret)
{
	const char *start = *at, *stop = memchr(start, ' ', (size_t)(end - start));

	if (!stop)
		stop = end;
	*ret = start;
	*at = stop < end ? stop + 1 : end;
	return (size_t)(stop - start);
}

static bool parse_id(const char *s, size_t len, unsigned *ret)
{
	unsigned v = 0;

	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9' || v > 400000000u)
			return false;
		v = v * 10 + (unsigned)(s[i] - '0');
	}
	*ret = v;
	return len > 0;
}

static bool is_octal(const char *s)
{
	return s[0] >= '0' && s[0] <= '3' && s[1] >= '0' && s[1] <= '7' && s[2] >= '0' &&
	       s[2] <= '7';
}

/* Space, tab, newline and backslash stand as \ooo. */
static bool unescape(const char *s, size_t len, char ret[static MOUNTINFO_PATH_SIZE])
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (n + 1 >= MOUNTINFO_PATH_SIZE)
			return false;
		if (s[i] == '\\' && len - i > 3 && is_octal(s + i + 1)) {
			ret[n++] = (char)((s[i + 1] - '0') * 64 + (s[i + 2] - '0') * 8 +
					  (s[i + 3] - '0'));
			i += 3;
		} else {
			ret[n++] = s[i];
		}
	}
	ret[n] = '\0';
	return n > 0;
}

bool mountinfo_parse(const char *line, size_t len, struct mountinfo *ret)
{
	const char *at = line, *end = line + len, *field;
	size_t n = word(&at, end, &field);

	if (!parse_id(field, n, &ret->id))
		return false;
	(void)word(&at, end, &field); /* the parent */
	n = word(&at, end, &field);
	if (n == 0 || n >= sizeof(ret->device))
		return false;
	memcpy(ret->device, field, n);
	ret->device[n] = '\0';
	(void)word(&at, end, &field); /* the root in the file system */
	n = word(&at, end, &field);
	return unescape(field, n, ret->path);
}

int mountinfo_read(int fd, bool (*each)(void *ctx, const struct mountinfo *m), void *ctx)
{
	cleanup_buf struct buf text = {0};
	static struct mountinfo m;

	buf_init(&text, MOUNTINFO_MAX);
	int r = fd_read_all(fd, &text);
	if (r < 0)
		return r;
	const char *at = (const char *)text.data, *end = at + text.len;
	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));

		if (!stop)
			stop = end;
		if (mountinfo_parse(at, (size_t)(stop - at), &m) && !each(ctx, &m))
			break;
		at = stop + 1;
	}
	return 0;
}

struct search {
	const char *path;
	char *ret;
	bool found;
};

static bool compare(void *ctx, const struct mountinfo *m)
{
	struct search *s = ctx;

	if (strcmp(m->path, s->path) == 0) {
		memcpy(s->ret, m->device, sizeof(m->device));
		s->found = true;
	}
	return true;
}

int mountinfo_device(const char *path, char ret[static MOUNTINFO_DEVICE_SIZE])
{
	struct search s = {.path = path, .ret = ret};
	cleanup_fd int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : mountinfo_read(fd, compare, &s);

	if (r < 0)
		return r;
	return s.found ? 0 : -ENOENT;
}
