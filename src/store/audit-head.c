/* SPDX-License-Identifier: Apache-2.0 */
#include "audit-key.h"

#include "../base/fd.h"
#include "../base/file.h"
#include "../base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD_SIZE 512

static int bad_head(struct err *e)
{
	(void)err_set(e, ERR_CORRUPT, 0, "the head of the audit log (audit/head) is damaged");
	return err_hint(e, "kosa8 audit verify");
}

static int get_hex(const json_t *o, const char *key, size_t len, char *ret, struct err *e)
{
	const char *s;
	int r = json_get_str(o, key, len, &s, e);

	if (r < 0)
		return r;
	if (strlen(s) != len || strspn(s, "0123456789abcdef") != len)
		return -EBADMSG;
	memcpy(ret, s, len + 1);
	return 0;
}

int audit_head_read(int dirfd, struct audit_head *ret, struct err *e)
{
	struct audit_head h;
	cleanup_json *o = NULL;
	cleanup_buf struct buf b = {0};

	buf_init(&b, HEAD_SIZE);
	int r = file_read(dirfd, "head", &b);
	if (r == -ENOENT)
		return 0;
	if (r < 0 && r != -E2BIG)
		return err_errno(e, -r, "cannot read the head of the audit log");
	if (r < 0 || json_parse_object(b.data, b.len, "audit/head", &o, e) < 0 ||
		json_get_u64(o, "count", INT64_MAX, &h.count, e) < 0 ||
		get_hex(o, "hash", 64, h.hash, e) < 0 || get_hex(o, "key", 64, h.key, e) < 0 ||
		get_hex(o, "sig", 128, h.sig, e) < 0)
		return bad_head(e);
	*ret = h;
	return 1;
}

int audit_head_write(int dirfd, const struct audit_head *h, struct err *e)
{
	char text[HEAD_SIZE];
	struct stat st;
	int r;

	memset(text, ' ', sizeof(text));
	int n = snprintf(text, sizeof(text),
		"{\"count\":%llu,\"hash\":\"%s\",\"key\":\"%s\",\"sig\":\"%s\"}",
		(unsigned long long)h->count, h->hash, h->key, h->sig);
	text[n] = ' ';
	text[HEAD_SIZE - 1] = '\n';
	cleanup_fd int fd = openat(dirfd, "head", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == HEAD_SIZE)
		r = fd_pwrite_all(fd, text, sizeof(text), 0);
	else
		r = file_write_atomic(dirfd, "head", text, sizeof(text), 0600, true);
	return r < 0 ? err_errno(e, -r, "cannot write the head of the audit log") : 0;
}

int audit_head_sync(int dirfd, struct err *e)
{
	cleanup_fd int fd = openat(dirfd, "head", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return errno == ENOENT
			       ? 0
			       : err_errno(e, errno, "cannot open the head of the audit log");
	if (fdatasync(fd) < 0)
		return err_errno(e, errno, "cannot make the head of the audit log durable");
	return 0;
}
