/* SPDX-License-Identifier: Apache-2.0 */
#include "audit-view.h"

#include "output.h"
#include "since.h"

#include "../base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void audit_view_release(struct audit_view *v)
{
	for (size_t i = 0; i < v->len; i++) {
		json_decref(v->entries[i].begin);
		json_decref(v->entries[i].end);
	}
	free(v->entries);
	*v = (struct audit_view){0};
}

static const char *member(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static bool wanted(const struct audit_view *v, const json_t *record)
{
	int64_t at;

	if (v->sandbox && strcmp(member(record, "sandbox"), v->sandbox) != 0)
		return false;
	return v->since_ns == 0 || since_parse_rfc3339(member(record, "time"), &at) < 0 ||
	       at >= v->since_ns;
}

static ssize_t add_entry(struct audit_view *v, uint64_t seq, const json_t *record)
{
	/* Room for 1, 2, 4, ... entries. */
	if ((v->len & (v->len - 1)) == 0) {
		struct audit_entry *more =
			realloc(v->entries, (v->len ? 2 * v->len : 1) * sizeof(*more));
		if (!more)
			return -2;
		v->entries = more;
	}
	v->entries[v->len++] =
		(struct audit_entry){.seq = seq, .begin = json_incref((json_t *)record)};
	return -1;
}

ssize_t audit_view_add(struct audit_view *v, const json_t *record)
{
	json_int_t seq = json_integer_value(json_object_get(record, "seq"));
	json_int_t of = json_integer_value(json_object_get(record, "of"));
	bool is_end = strcmp(member(record, "phase"), "end") == 0 && of > 0;

	if (seq > 0 && (uint64_t)seq > v->last_seq)
		v->last_seq = (uint64_t)seq;
	if (is_end) {
		for (size_t i = v->len; i-- > 0;)
			if (v->entries[i].seq == (uint64_t)of) {
				json_decref(v->entries[i].end);
				v->entries[i].end = json_incref((json_t *)record);
				return (ssize_t)i;
			}
		return -1; /* its begin is not shown */
	}
	if (!wanted(v, record))
		return -1;
	ssize_t r = add_entry(v, (uint64_t)seq, record);
	/* What the log itself has to say is complete at once. */
	if (r == -1 && strcmp(member(record, "phase"), "begin") != 0) {
		v->entries[v->len - 1].end = json_incref((json_t *)record);
		return (ssize_t)v->len - 1;
	}
	return r;
}

void audit_view_drop(struct audit_view *v, size_t index)
{
	json_decref(v->entries[index].begin);
	json_decref(v->entries[index].end);
	memmove(v->entries + index, v->entries + index + 1,
		(v->len - index - 1) * sizeof(*v->entries));
	v->len--;
}

/* When the process started: clock ticks since boot (proc_pid_stat(5), field 22) made wall time. */
static bool started_before(json_int_t pid, int64_t wall_ns)
{
	char path[40], text[1024];
	unsigned long long ticks = 0;
	struct timespec wall, boot;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
	if (!(f = fopen(path, "re")))
		return false;
	size_t n = fread(text, 1, sizeof(text) - 1, f);
	(void)fclose(f);
	text[n] = '\0';
	const char *p = strrchr(text, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	if (!p || sscanf(p, " %llu", &ticks) != 1)
		return false;
	(void)clock_gettime(CLOCK_REALTIME, &wall);
	(void)clock_gettime(CLOCK_BOOTTIME, &boot);
	int64_t boot_ns =
		(int64_t)(wall.tv_sec - boot.tv_sec) * 1000000000 + wall.tv_nsec - boot.tv_nsec;
	int64_t start_ns =
		boot_ns + (int64_t)(ticks * (1000000000 / (uint64_t)sysconf(_SC_CLK_TCK)));
	return start_ns <= wall_ns + 1000000000;
}

/* An action without an end was cut off, unless its command is still at work. */
static const char *result_of(const struct audit_entry *x)
{
	const json_t *actor = json_object_get(x->begin, "actor");
	json_int_t pid = json_integer_value(json_object_get(actor, "pid"));
	int64_t at;

	if (x->end)
		return member(x->end, "result");
	if (pid > 0 && since_parse_rfc3339(member(x->begin, "time"), &at) == 0 &&
		started_before(pid, at))
		return "in progress";
	return "cut off";
}

static void put_actor(const json_t *actor, char *ret, size_t size)
{
	const char *name = member(actor, "name"), *program = member(actor, "program");
	const char *slash = strrchr(program, '/');

	(void)snprintf(ret, size, "%.8s%s%.48s%s%.32s%s", member(actor, "kind"), *name ? " " : "",
		name, *program ? " (" : "", slash ? slash + 1 : program, *program ? ")" : "");
}

/* Bytes that are no text, as client_bytes_encode() records them. */
static void put_bytes(struct buf *b, const char *hex)
{
	unsigned char byte[2] = {0};
	char shown[8];

	for (; *hex; hex += 2) {
		(void)text_unhex(hex, byte, 1);
		text_escape((const char *)byte, shown, sizeof(shown));
		buf_putf(b, "%s", shown);
	}
}

static void put_value(struct buf *b, const json_t *v)
{
	const json_t *item;
	size_t i;

	const char *hex = json_string_value(json_object_get(v, "hex"));
	size_t len = hex ? strlen(hex) : 0;

	if (hex && len % 2 == 0 && strspn(hex, "0123456789abcdef") == len) {
		put_bytes(b, hex);
	} else if (json_is_string(v)) {
		buf_putf(b, "%s", json_string_value(v));
	} else if (json_is_array(v)) {
		json_array_foreach ((json_t *)v, i, item) {
			if (i > 0)
				buf_put_u8(b, ' ');
			put_value(b, item);
		}
	} else {
		json_put_canonical(b, v);
	}
}

static void put_members(struct buf *b, const json_t *o)
{
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)o, key, value) {
		if (b->len > 0)
			buf_put_u8(b, ' ');
		buf_putf(b, "%s=", key);
		put_value(b, value);
	}
}

static void put_detail(const struct audit_entry *x, char *ret, size_t size)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, 256 * 1024);
	/* The end may repeat what the begin said, and know more. */
	cleanup_json *all = json_object();
	if (x->end)
		(void)json_object_update(all, json_object_get(x->end, "detail"));
	(void)json_object_update_missing(all, json_object_get(x->begin, "detail"));
	put_members(&b, all);
	const char *text = buf_cstr(&b);
	int n = snprintf(ret, size, "%.80s", text ? text : "");
	if (n == 80) {
		/* Not in the middle of a character. */
		while (n > 77 || ((unsigned char)ret[n] & 0xc0) == 0x80)
			n--;
		memcpy(ret + n, "...", 4);
	}
}

void audit_entry_cells(const struct audit_entry *x, char ret[AUDIT_CELLS][AUDIT_CELL_SIZE])
{
	int64_t at = 0;
	size_t i = 0;

	(void)snprintf(ret[i++], AUDIT_CELL_SIZE, "%llu", (unsigned long long)x->seq);
	if (since_parse_rfc3339(member(x->begin, "time"), &at) < 0)
		at = 0;
	output_time(at, ret[i++]);
	put_actor(json_object_get(x->begin, "actor"), ret[i++], AUDIT_CELL_SIZE);
	(void)snprintf(ret[i++], AUDIT_CELL_SIZE, "%.100s", member(x->begin, "action"));
	(void)snprintf(ret[i++], AUDIT_CELL_SIZE, "%.100s", member(x->begin, "sandbox"));
	(void)snprintf(ret[i++], AUDIT_CELL_SIZE, "%.100s", result_of(x));
	put_detail(x, ret[i], AUDIT_CELL_SIZE);
}

json_t *audit_entry_json(const struct audit_entry *x)
{
	static const char *const chain[] = {"prev", "hash", "phase", "of"};
	json_t *o = json_copy(x->begin), *end = NULL;

	for (size_t i = 0; o && i < sizeof(chain) / sizeof(chain[0]); i++)
		(void)json_object_del(o, chain[i]);
	if (!o || json_object_set_new(o, "result", json_string(result_of(x))) < 0)
		goto fail;
	if (x->end && x->end != x->begin) {
		end = json_pack("{s:O*, s:O*, s:O*, s:O*}", "seq", json_object_get(x->end, "seq"),
			"time", json_object_get(x->end, "time"), "bound",
			json_object_get(x->end, "bound"), "detail",
			json_object_get(x->end, "detail"));
		if (json_object_set_new(o, "end", end) < 0)
			goto fail;
	}
	return o;
fail:
	json_decref(o);
	return NULL;
}
