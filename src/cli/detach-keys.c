/* SPDX-License-Identifier: Apache-2.0 */
#include "detach-keys.h"

#include <string.h>

static int parse_key(const char *s, size_t len)
{
	if (len == 1 && s[0] > ' ' && s[0] < 0x7f)
		return s[0];
	if (len != 6 || memcmp(s, "ctrl-", 5) != 0)
		return -1;
	if (s[5] >= 'a' && s[5] <= 'z')
		return s[5] - 'a' + 1;
	return s[5] && strchr("@[\\]^_", s[5]) ? s[5] - '@' : -1;
}

int detach_keys_parse(const char *s, struct detach_keys *ret, struct err *e)
{
	struct detach_keys d = {0};

	for (const char *at = s; *s;) {
		/* A comma at the beginning of a key is the key. */
		size_t len = *at == ',' ? 1 : strcspn(at, ",");
		int key = parse_key(at, len);
		if (key < 0 || d.len == DETACH_KEYS_MAX || (at[len] && !at[len + 1]))
			return err_set(e, ERR_USAGE, 0,
				"--detach-keys: \"%.60s\" is not a list of at most %d keys such as "
				"ctrl-p,ctrl-q",
				s, DETACH_KEYS_MAX);
		d.keys[d.len++] = (unsigned char)key;
		if (!at[len])
			break;
		at += len + 1;
	}
	*ret = d;
	return 0;
}

/* How many keys at the end of the first n are the beginning of the sequence, fewer than n. */
static size_t overlap(const struct detach_keys *d, size_t n)
{
	for (size_t k = n - 1; k > 0; k--)
		if (memcmp(d->keys, d->keys + n - k, k) == 0)
			return k;
	return 0;
}

bool detach_keys_feed(struct detach_keys *d, const unsigned char *data, size_t len, struct buf *b)
{
	if (d->len == 0) {
		buf_put(b, data, len);
		return false;
	}
	for (size_t i = 0; i < len; i++) {
		while (d->held > 0 && data[i] != d->keys[d->held]) {
			size_t keep = overlap(d, d->held);
			buf_put(b, d->keys, d->held - keep);
			d->held = keep;
		}
		if (data[i] != d->keys[d->held]) {
			buf_put_u8(b, data[i]);
			continue;
		}
		if (++d->held == d->len) {
			d->held = 0;
			return true;
		}
	}
	return false;
}

void detach_keys_flush(struct detach_keys *d, struct buf *b)
{
	buf_put(b, d->keys, d->held);
	d->held = 0;
}
