/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include "../../base/hash.h"

#include <errno.h>
#include <string.h>

static struct memory *of(struct sink *s)
{
	return (struct memory *)s;
}

static uint64_t memory_offset(struct sink *s)
{
	(void)s; /* always fetched whole */
	return 0;
}

static uint64_t memory_size(struct sink *s)
{
	return of(s)->expected;
}

static int too_large(struct memory *m, struct err *e)
{
	if (m->expected)
		return err_set(e, ERR_CORRUPT, 0, "%s is larger than the %llu bytes it should have",
			m->what, (unsigned long long)m->expected);
	return err_set(e, ERR_LIMIT, 0, "%s is larger than %zu bytes", m->what, m->body.max);
}

static int memory_begin(struct sink *s, uint64_t offset, int64_t length, struct err *e)
{
	struct memory *m = of(s);

	(void)offset;
	buf_reset(&m->body);
	if (length > 0 && (uint64_t)length > m->body.max)
		return too_large(m, e);
	return 0;
}

static int memory_data(struct sink *s, const void *data, size_t len, struct err *e)
{
	struct memory *m = of(s);

	if (m->body.len + len > m->body.max)
		return too_large(m, e);
	buf_put(&m->body, data, len);
	return buf_failed(&m->body) ? err_errno(e, ENOMEM, "%s", m->what) : 0;
}

static int memory_end(struct sink *s, struct err *e)
{
	struct memory *m = of(s);
	char hex[SHA256_HEX_SIZE];

	if (m->body.len < m->expected) {
		(void)err_set(e, ERR_UNAVAILABLE, 0, "%s ended after %zu of %llu bytes", m->what,
			m->body.len, (unsigned long long)m->expected);
		return -EAGAIN;
	}
	if (!m->digest)
		return 0;
	if (m->body.len == 0)
		return err_set(e, ERR_CORRUPT, 0, "%s: what was sent is empty", m->what);
	sha256_hex_of(m->body.data, m->body.len, hex);
	if (strcmp(m->digest + strlen("sha256:"), hex) != 0)
		return err_set(e, ERR_CORRUPT, 0,
			"%s: what was sent has another digest (sha256:%s)", m->what, hex);
	return 0;
}

void memory_init(struct memory *m, const char *what, uint64_t expected_bytes, const char *digest,
	size_t max_bytes)
{
	*m = (struct memory){
		.sink = {memory_offset, memory_begin, memory_data, memory_end, memory_size},
		.what = what,
		.expected = expected_bytes,
		.digest = digest};
	buf_init(&m->body,
		expected_bytes && expected_bytes < max_bytes ? (size_t)expected_bytes : max_bytes);
}

void memory_release(struct memory *m)
{
	buf_release(&m->body);
}
