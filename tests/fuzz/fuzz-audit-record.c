/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log's reader: the input is a log file. A line that is in canonical form must have the
 * same fields read by the fast scan as by the JSON parser. */
#include "base/fd.h"
#include "store/audit-log.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HASH_MEMBER_SIZE 75

/* Whether the line is the canonical form of o, with the hash at its end. */
static bool is_canonical(json_t *o, const char *line, size_t len)
{
	cleanup_json *hash = json_incref(json_object_get(o, "hash"));
	cleanup_buf struct buf b = {0};
	size_t body = len - HASH_MEMBER_SIZE;

	buf_init(&b, 4 * AUDIT_LINE_MAX);
	(void)json_object_del(o, "hash");
	json_put_canonical(&b, o);
	(void)json_object_set(o, "hash", hash);
	return !buf_failed(&b) && b.len == body + 1 && memcmp(b.data, line, body) == 0;
}

static void check_line(char *line, size_t len)
{
	cleanup_json *o = NULL;
	struct audit_actor actor;
	struct audit_scan s;
	struct err e;
	bool scanned = audit_record_scan(line, len, &s);

	if (scanned)
		(void)audit_record_holds(line, len, &s);
	if (json_parse_object(line, len, "the line", &o, &e) < 0)
		return;
	(void)!audit_actor_decode(json_object_get(o, "actor"), &actor, &e);
	cleanup_json *copy = audit_bounded_copy(o);
	assert(copy);
	if (!scanned || !json_is_string(json_object_get(o, "time")) ||
		!json_is_string(json_object_get(o, "result")) || json_object_size(o) != 13 ||
		!is_canonical(o, line, len))
		return;
	assert((uint64_t)json_integer_value(json_object_get(o, "seq")) == s.seq);
	assert(strcmp(json_string_value(json_object_get(o, "prev")), s.prev) == 0);
	assert(strcmp(json_string_value(json_object_get(o, "hash")), s.hash) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_audit_lines struct audit_lines lines = {0};
	cleanup_fd int fd = memfd_create("log", MFD_CLOEXEC);
	struct audit_tail tail;
	struct err e;
	size_t len, total = 0;
	char *line;
	int kind;

	if (fd < 0 || fd_write_all(fd, data, size) < 0 ||
		audit_lines_init(&lines, fd, (off_t)size, &e) < 0)
		return 0;
	while ((kind = audit_lines_next(&lines, &line, &len, &e)) > 0) {
		total += len + (kind == AUDIT_LINE_WHOLE);
		if (kind != AUDIT_LINE_LONG)
			check_line(line, len);
	}
	assert(kind == AUDIT_LINE_END && total <= size);
	assert(audit_tail_read(fd, (off_t)size, &tail, &e) == 0);
	assert(tail.whole >= 0 && (size_t)tail.whole + tail.torn == size);
	return 0;
}
