/* SPDX-License-Identifier: Apache-2.0 */
#include "audit-record.h"

#include "../base/clock.h"
#include "../base/hash.h"
#include "../base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define HASH_MEMBER_SIZE 75 /* ,"hash":"<64>" and the brace */
#define DEPTH_MAX 16
#define MARKER "...[cut]"

/* ---- bounding what comes from outside ---- */

struct room {
	size_t left;
	unsigned depth;
	bool cut;
};

static void spend(struct room *k, size_t bytes)
{
	k->left -= bytes < k->left ? bytes : k->left;
}

/* The well-formed UTF-8 sequence at s, or 0. */
static size_t sequence(const char *s, size_t left)
{
	for (size_t n = 1; n <= 4 && n <= left; n++)
		if (text_is_utf8(s, n))
			return n;
	return 0;
}

/* Bytes that one character takes in JSON. */
static size_t encoded(unsigned char c)
{
	if (c == '"' || c == '\\')
		return 2;
	return c < 0x20 ? 6 : 1;
}

static json_t *bounded_string(const char *s, size_t len, struct room *k)
{
	cleanup_buf struct buf b = {0};
	size_t cost = 2, most = k->left > 16 ? k->left - 16 : 0;

	buf_init(&b, AUDIT_LINE_MAX);
	for (size_t i = 0, n; i < len; i += n ? n : 1) {
		n = sequence(s + i, len - i);
		size_t size = n == 0 ? 5 : n == 1 ? encoded((unsigned char)s[i]) : n;
		if (cost + size > most) {
			k->cut = true;
			buf_put(&b, MARKER, strlen(MARKER));
			cost += strlen(MARKER);
			break;
		}
		cost += size;
		if (n == 0)
			buf_putf(&b, "\\x%02x", (unsigned char)s[i]);
		else
			buf_put(&b, s + i, n);
	}
	spend(k, cost);
	return buf_cstr(&b) ? json_stringn((const char *)b.data, b.len) : NULL;
}

static json_t *bounded(const json_t *v, struct room *k);

static json_t *bounded_array(const json_t *v, struct room *k)
{
	json_t *copy = json_array(), *item;
	size_t i;

	json_array_foreach (v, i, item) {
		bool full = k->left < 32;
		if (full)
			k->cut = true;
		if (json_array_append_new(copy, full ? json_string(MARKER) : bounded(item, k)) <
			0) {
			json_decref(copy);
			return NULL;
		}
		if (full)
			break;
		spend(k, 1);
	}
	return copy;
}

static json_t *bounded_object(const json_t *v, struct room *k)
{
	json_t *copy = json_object(), *item;
	const char *key;

	json_object_foreach ((json_t *)v, key, item) {
		if (k->left < 64) {
			k->cut = true;
			break;
		}
		cleanup_json *name = bounded_string(key, strlen(key), k);
		if (!name ||
			json_object_set_new(copy, json_string_value(name), bounded(item, k)) < 0) {
			json_decref(copy);
			return NULL;
		}
		spend(k, 2);
	}
	return copy;
}

static json_t *bounded(const json_t *v, struct room *k)
{
	json_t *copy = NULL;

	if (k->depth == DEPTH_MAX) {
		k->cut = true;
		return json_string(MARKER);
	}
	k->depth++;
	spend(k, 2);
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		copy = bounded_object(v, k);
		break;
	case JSON_ARRAY:
		copy = bounded_array(v, k);
		break;
	case JSON_STRING:
		copy = bounded_string(json_string_value(v), json_string_length(v), k);
		break;
	case JSON_INTEGER:
	case JSON_REAL:
	case JSON_TRUE:
	case JSON_FALSE:
	case JSON_NULL:
		spend(k, 24);
		copy = json_copy((json_t *)v);
		break;
	}
	k->depth--;
	return copy;
}

json_t *audit_bounded_copy(const json_t *v)
{
	/* Markers and brackets that are put where no room is left need some at each depth. */
	struct room k = {.left = AUDIT_JSON_MAX - 32 * DEPTH_MAX};
	json_t *copy = bounded(v, &k);

	if (copy && k.cut && json_is_object(copy) &&
		json_object_set_new(copy, "cut", json_true()) < 0) {
		json_decref(copy);
		return NULL;
	}
	return copy;
}

json_t *audit_text(const char *s, size_t max)
{
	struct room k = {.left = max + 16};

	return bounded_string(s, strlen(s), &k);
}

/* ---- encoding ---- */

static int set(json_t *o, const char *key, json_t *v)
{
	return json_object_set_new(o, key, v);
}

static int set_event(json_t *o, const struct audit_event *ev)
{
	if (set(o, "action", audit_text(ev->action, 64)) < 0 ||
		set(o, "actor", audit_actor_encode(ev->actor)) < 0)
		return -1;
	if (ev->sandbox && set(o, "sandbox", audit_text(ev->sandbox, 256)) < 0)
		return -1;
	if (ev->sandbox_id && set(o, "sandbox_id", audit_text(ev->sandbox_id, 64)) < 0)
		return -1;
	if (ev->bound && set(o, "bound", audit_bounded_copy(ev->bound)) < 0)
		return -1;
	if (ev->detail && set(o, "detail", audit_bounded_copy(ev->detail)) < 0)
		return -1;
	return 0;
}

static int set_fields(json_t *o, const struct audit_fields *f)
{
	char stamp[CLOCK_RFC3339_SIZE];

	clock_rfc3339(f->wall_ns, stamp);
	if (set(o, "seq", json_integer((json_int_t)f->seq)) < 0 ||
		set(o, "time", json_string(stamp)) < 0 ||
		set(o, "phase", json_string(f->phase)) < 0 ||
		set(o, "prev", json_string(f->prev)) < 0)
		return -1;
	if (f->has_of && set(o, "of", json_integer((json_int_t)f->of)) < 0)
		return -1;
	if (f->result && set(o, "result", audit_text(f->result, 64)) < 0)
		return -1;
	return 0;
}

int audit_record_put(struct buf *b, const struct audit_event *ev, const struct audit_fields *f,
	char ret_hash[static 65], struct err *e)
{
	cleanup_json *o = json_object();
	char hash[65];
	size_t start = b->len;

	if (!o || set_event(o, ev) < 0 || set_fields(o, f) < 0)
		return err_errno(e, ENOMEM, "cannot record the action");
	json_put_canonical(b, o);
	if (buf_failed(b))
		return err_set(e, ERR_LIMIT, 0, "the audit record is too long");
	sha256_hex_of(b->data + start, b->len - start, hash);
	b->len--; /* the brace */
	buf_putf(b, ",\"hash\":\"%s\"}\n", hash);
	if (buf_failed(b))
		return err_set(e, ERR_LIMIT, 0, "the audit record is too long");
	memcpy(ret_hash, hash, sizeof(hash));
	return 0;
}

/* ---- reading the chain's fields ---- */

static bool is_hash(const char *s)
{
	for (int i = 0; i < 64; i++)
		if (!((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f')))
			return false;
	return true;
}

/* The last place of needle, searched from the end. */
static const char *last(const char *line, size_t len, const char *needle)
{
	size_t n = strlen(needle);

	for (size_t i = len; i >= n; i--)
		if (line[i - n] == needle[0] && memcmp(line + i - n, needle, n) == 0)
			return line + i;
	return NULL;
}

/* ,"seq":N,"time":"..." are the last members of the canonical form. */
static bool scan_seq(const char *line, size_t len, uint64_t *ret)
{
	const char *p = last(line, len, ",\"seq\":"), *end = line + len;
	uint64_t v = 0;

	if (!p || p == end || *p < '1' || *p > '9')
		return false;
	for (; p < end && *p >= '0' && *p <= '9'; p++) {
		if (v > (INT64_MAX - 9) / 10)
			return false;
		v = v * 10 + (uint64_t)(*p - '0');
	}
	if (end - p < 9 || memcmp(p, ",\"time\":\"", 9) != 0)
		return false;
	*ret = v;
	return true;
}

/*
 * In a string a quote has a backslash before it, so ,"prev":" is always a member of some object.
 * After the record's own one (keys are sorted) there are only strings and a number, no objects: the
 * last one is it.
 */
bool audit_record_scan(const char *line, size_t len, struct audit_scan *ret)
{
	struct audit_scan s;

	if (len < HASH_MEMBER_SIZE + 100 || len > AUDIT_LINE_MAX || line[0] != '{')
		return false;
	size_t body = len - HASH_MEMBER_SIZE;
	const char *member = line + body;
	if (memcmp(member, ",\"hash\":\"", 9) != 0 || !is_hash(member + 9) || member[73] != '"' ||
		member[74] != '}')
		return false;
	const char *prev = last(line, body, ",\"prev\":\"");
	if (!prev || line + body - prev < 65 || !is_hash(prev) || prev[64] != '"')
		return false;
	if (!scan_seq(line, body, &s.seq))
		return false;
	memcpy(s.prev, prev, 64);
	memcpy(s.hash, member + 9, 64);
	s.prev[64] = s.hash[64] = '\0';
	*ret = s;
	return true;
}

bool audit_record_holds(char *line, size_t len, const struct audit_scan *s)
{
	size_t body = len - HASH_MEMBER_SIZE;
	char saved = line[body], hash[65];

	line[body] = '}';
	sha256_hex_of(line, body + 1, hash);
	line[body] = saved;
	return strcmp(hash, s->hash) == 0;
}
